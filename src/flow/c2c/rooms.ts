import { composeMessage } from '../../protocol/message.ts';
import type { BrokerEntry, SessionRow } from '../../protocol/c2c.ts';
import type { AgentName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { Broker } from '../../storage/c2c/broker.ts';
import type { Workspace } from '../workspace.ts';
import { refuseTooLarge, send } from '../send.ts';

/** A workspace whose only home is a broker, and the broker itself. */
export interface Counter {
  workspace: Workspace;
  broker: Broker;
}

/** Writes to everybody else in a room. Whoever is away finds it on return. Only members may speak. spec: c2c#rooms */
export async function sayInRoom(
  { workspace, broker }: Counter,
  from: AgentName,
  room: string,
  body: string,
): Promise<{ delivered_to: string[]; skipped: string[]; ts: number; message_id: string }> {
  const members = (await broker.room(room))?.members ?? [];
  refuseStranger(members, from, room);
  const draft = { to: `#${room}`, body, priority: 'normal', intent: 'none' } as const;
  if (members.every(({ alias }) => isSame(alias, from))) return saidAlone({ workspace, broker }, from, draft);
  const { message, copies } = await send(workspace, from, draft);
  const reached = copies.map(({ mailbox }) => mailbox as string);
  return { delivered_to: reached, skipped: [], ts: Date.parse(message.ts) / 1000, message_id: message.id };
}

/** Nobody else is there: it stands in the room's past for those who come. */
async function saidAlone(
  { workspace }: Counter,
  from: AgentName,
  draft: { to: string; body: string; priority: 'normal'; intent: 'none' },
): Promise<{ delivered_to: string[]; skipped: string[]; ts: number; message_id: string }> {
  const [home] = workspace.homes;
  if (!home) throw new Error('a workspace without a home');
  refuseTooLarge(draft.body, workspace.bodyLimit);
  const message = composeMessage(draft, { id: workspace.newId(), from, ts: new Date(workspace.now()).toISOString() });
  await home.spool.put({ message, copies: [] });
  return { delivered_to: [], skipped: [], ts: Date.parse(message.ts) / 1000, message_id: message.id };
}

/** Joins a room, and tells who is there and what was said last. */
export async function joinRoom(broker: Broker, alias: AgentName, room: string, historyLimit: number) {
  await broker.join(room, alias);
  return {
    ...(await membersJson(broker, room)),
    history: (await broker.roomHistory(room, historyLimit)).map(saidJson),
  };
}

export async function leaveRoom(broker: Broker, alias: AgentName, room: string) {
  await broker.leave(room, alias);
  return membersJson(broker, room);
}

/** A line of a room's past. */
export function saidJson({ ts, from_alias, content, message_id }: BrokerEntry) {
  return { ts, from_alias, content, ...(message_id !== undefined && { message_id }) };
}

/** The rooms, or those in which this session is. */
export async function roomsJson(broker: Broker, ofSession?: string): Promise<Record<string, unknown>[]> {
  const alive = new Map((await broker.sessions()).map((one) => [one.row.session_id, one.alive]));
  const found: Record<string, unknown>[] = [];
  for (const name of await broker.rooms()) {
    const { members = [], visibility = 'public' } = (await broker.room(name)) ?? {};
    if (ofSession !== undefined && members.every(({ session_id }) => session_id !== ofSession)) continue;
    found.push(roomJson(name, visibility, members, (row) => alive.get(row.session_id) ?? null));
  }
  return found;
}

function roomJson(
  name: string,
  visibility: string,
  members: SessionRow[],
  isAlive: (row: SessionRow) => boolean | null,
) {
  const details = members.map((row) => ({ alias: row.alias, session_id: row.session_id, alive: isAlive(row) }));
  const count = (state: boolean | null): number => details.filter(({ alive }) => alive === state).length;
  return {
    room_id: name,
    member_count: details.length,
    alive_count: count(true),
    members: details.map(({ alias }) => alias),
    alive_members: details.filter(({ alive }) => alive !== false).map(({ alias }) => alias),
    alive_member_count: count(true),
    dead_member_count: count(false),
    unknown_member_count: count(null),
    member_details: details,
    visibility,
  };
}

async function membersJson(broker: Broker, room: string) {
  const members = (await broker.room(room))?.members ?? [];
  return { room_id: room, members: members.map(({ alias, session_id }) => ({ alias, session_id })) };
}

function refuseStranger(members: readonly SessionRow[], alias: string, room: string): void {
  if (members.some((one) => isSame(one.alias, alias))) return;
  throw new Refusal('not_yours', `${alias} is not in room ${room}; join it first: \`c2c rooms join ${room}\``);
}

function isSame(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}
