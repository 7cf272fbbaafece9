import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Broker, BrokerSession } from './broker.ts';
import type { BrokerEntry } from './entry.ts';
import { isObject } from './files.ts';
import { whyHeld } from './registry.ts';
import type { SessionRow } from './shapes.ts';

/** The latest time that a Date can hold, in seconds since 1970. */
const LATEST_S = 8.64e12;

export function noAlias(): Refusal {
  return new Refusal('no_identity', 'this session has no alias; run `c2c register <alias>` first');
}

/** A session in the JSON form of `list`. spec: c2c#list */
export function sessionJson({ row, alive, lastSeen }: BrokerSession): Record<string, unknown> {
  const { session_id, alias, pid, registered_at, client_type, dnd, dnd_until } = row;
  const { canonical_alias, compacting, role } = row;
  return {
    session_id,
    alias,
    alive,
    last_seen: lastSeen,
    ...(pid !== undefined && { pid }),
    ...(registered_at !== undefined && { registered_at }),
    ...(typeof canonical_alias === 'string' && { canonical_alias }),
    ...(client_type !== undefined && { client_type }),
    ...(typeof role === 'string' && { role }),
    ...(dnd && { dnd: true, ...(dnd_until !== undefined && { dnd_until }) }),
    ...(isObject(compacting) && { compacting }),
  };
}

/**
 * Checks that a session may write under an alias, and returns the alias in its registered spelling. Allowed are a free alias, the session's own,
 * and one whose session has ended. spec: c2c#aliases
 */
export async function speakerOf(broker: Broker, alias: AgentName, sessionId: string | null): Promise<AgentName> {
  const known = await broker.byAlias(alias);
  if (!known) return alias;
  const { session_id, alias: written } = known.row;
  if (session_id === sessionId) return written as AgentName;
  if (whyHeld(known.row, known.alive, broker.now()) === null) {
    broker.registry.lent.add(session_id);
    return written as AgentName;
  }
  const runs = known.alive ? 'that runs' : 'that may run';
  throw new Refusal(
    'not_yours',
    `"${written}" is the alias of another session ${runs} (${session_id}); choose another alias`,
  );
}

/** The parts of a comma-separated list, without blanks around them. */
export function splitList(text: string | undefined): string[] {
  return (text ?? '')
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '');
}

/** Whether do-not-disturb is on for a session. Then its mail waits, and nothing wakes it. Times are seconds since 1970. spec: c2c#dnd */
export interface Dnd {
  dnd: boolean;
  dnd_since?: number | undefined;
  dnd_until?: number | undefined;
}

export function dndOf({ dnd, dnd_since, dnd_until }: SessionRow, now: number): Dnd {
  const on = dnd === true && (dnd_until === undefined || dnd_until > now);
  return { dnd: on, ...(on && { dnd_since, dnd_until }) };
}

/** Switches do-not-disturb on or off, and returns its new state. */
export async function setDnd(
  broker: Broker,
  sessionId: string,
  wish: { on: boolean; until?: number | undefined },
  now: number,
): Promise<Dnd> {
  if (wish.on && wish.until !== undefined && !(wish.until > now && wish.until < LATEST_S)) {
    throw new Refusal(
      'invalid_request',
      'the end must be a future time in seconds since 1970; correct it, or leave it out',
    );
  }
  const changed = await broker.amend(sessionId, () =>
    wish.on
      ? { dnd: true, dnd_since: now, dnd_until: wish.until }
      : { dnd: undefined, dnd_since: undefined, dnd_until: undefined },
  );
  if (changed) return dndOf(changed.row, now);
  throw noAlias();
}

/** Joins a room, and returns its members and its last messages. */
export async function joinRoom(broker: Broker, alias: AgentName, room: string, historyLimit: number) {
  await broker.join(room, alias);
  const history = broker.rooms.history(room, historyLimit);
  return { ...(await membersJson(broker, room)), history: history.map(saidJson) };
}

export async function leaveRoom(broker: Broker, alias: AgentName, room: string) {
  broker.rooms.leave(room, alias);
  return membersJson(broker, room);
}

async function membersJson(broker: Broker, room: string) {
  return { room_id: room, members: (await broker.room(room))?.members ?? [] };
}

/** A message of a room's history, in its JSON form. */
export function saidJson({ ts, from_alias, content, message_id }: BrokerEntry) {
  return { ts, from_alias, content, ...(message_id !== undefined && { message_id }) };
}

/** The rooms in their JSON form: all, or those of one session. */
export async function roomsJson(broker: Broker, ofSession?: string): Promise<Record<string, unknown>[]> {
  const alive = new Map((await broker.sessions()).map((one) => [one.row.session_id, one.alive]));
  const found: Record<string, unknown>[] = [];
  for (const name of broker.rooms.existing()) {
    const { members = [], visibility = 'public' } = (await broker.room(name)) ?? {};
    if (ofSession !== undefined && members.every(({ session_id }) => session_id !== ofSession)) continue;
    const details = members.map((member) => ({ ...member, alive: alive.get(member.session_id) ?? null }));
    const count = (state: boolean | null): number => details.filter((one) => one.alive === state).length;
    found.push({
      room_id: name,
      member_count: details.length,
      alive_count: count(true),
      members: details.map((one) => one.alias),
      alive_members: details.filter((one) => one.alive !== false).map((one) => one.alias),
      alive_member_count: count(true),
      dead_member_count: count(false),
      unknown_member_count: count(null),
      member_details: details,
      visibility,
    });
  }
  return found;
}
