import { joinRoom, leaveRoom, roomsJson, saidJson } from './sessions.ts';
import { sayInRoom } from './mail.ts';
import { readRoom } from './shapes.ts';
import { FLAG, TEXT, command } from '../../core/command.ts';
import type { Values } from '../../core/command.ts';
import { minuteOf } from '../../core/time.ts';
import { lineForModel } from '../../core/gate.ts';
import { nearest } from '../../core/nearest.ts';
import { Refusal } from '../../core/refusal.ts';
import { JSON_FLAG } from './workspace.ts';
import type { C2c } from './workspace.ts';

const OPTIONS = {
  from: { ...TEXT, short: 'F' },
  alias: { ...TEXT, short: 'a' },
  limit: { ...TEXT, short: 'l' },
  'history-limit': TEXT,
  since: TEXT,
  'no-warn-substitution': FLAG,
  json: JSON_FLAG,
} as const;
type Given = Values<typeof OPTIONS>;

/** The subcommands of `rooms`. */
const VERBS: Record<string, (c2c: C2c, given: Given, words: string[]) => Promise<void>> = {
  list,
  join,
  leave,
  send,
  history,
  members,
};
const WAYS =
  'rooms [list] | join|leave|members <room> | send <room> <text …> | history <room> [--limit <n>] [--since 30m|24h|7d|<time>] [--json]';
const USAGE = `usage: c2c ${WAYS}`;

const roomsCommand = command({
  usage: WAYS,
  options: OPTIONS,
  words: [0, Infinity],
  async run(c2c: C2c, values, [verb = 'list', ...words]) {
    const act = Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined;
    if (!act) throw new Refusal('invalid_request', USAGE);
    await act(c2c, values, words);
  },
});

async function list(c2c: C2c, { json }: Given): Promise<void> {
  sayRooms(c2c, await roomsJson(c2c.broker), json === true);
}

/** Prints rooms as text or as JSON. */
function sayRooms(c2c: C2c, rooms: Record<string, unknown>[], json: boolean): void {
  if (json) return c2c.sayJson(rooms);
  if (rooms.length === 0) return c2c.say('no rooms');
  for (const { room_id, members } of rooms) c2c.say(`${String(room_id)}  ${(members as string[]).join(', ')}`);
}

async function join(c2c: C2c, given: Given, words: string[]): Promise<void> {
  const room = oneRoom(words);
  const alias = await c2c.writer(given.alias);
  const joined = await joinRoom(c2c.broker, alias, room, count(given['history-limit'], 20));
  if (given.json) return c2c.sayJson(joined);
  c2c.say(`${alias} is in ${room}, with ${othersIn(joined.members.length - 1)}`);
  for (const said of joined.history) sayLine(c2c, said);
}

async function leave(c2c: C2c, given: Given, words: string[]): Promise<void> {
  const room = oneRoom(words);
  const alias = await c2c.writer(given.alias);
  await refuseUnknownRoom(c2c, room);
  const left = await leaveRoom(c2c.broker, alias, room);
  if (given.json) return c2c.sayJson(left);
  c2c.say(`${alias} is not in ${room} any more`);
}

async function send(c2c: C2c, given: Given, [name, ...words]: string[]): Promise<void> {
  if (name === undefined || words.length === 0)
    throw new Refusal('invalid_request', 'usage: c2c rooms send <room> <text …>');
  const room = readRoom(name);
  const from = await c2c.writer(given.from ?? given.alias);
  await refuseUnknownRoom(c2c, room);
  const said = await sayInRoom({ workspace: c2c.workspace, broker: c2c.broker }, from, room, words.join(' '));
  if (given.json) return c2c.sayJson(said);
  c2c.say(
    said.delivered_to.length > 0
      ? `stored for ${said.delivered_to.join(', ')}`
      : 'nobody else is in this room; its history has it',
  );
}

async function history(c2c: C2c, given: Given, words: string[]): Promise<void> {
  const room = oneRoom(words);
  await refuseUnknownRoom(c2c, room);
  const since = given.since === undefined ? 0 : sinceOf(given.since, Date.now() / 1000);
  const limit = count(given.limit, 50);
  const said = c2c.broker.rooms.history(room, since > 0 ? Infinity : limit).filter(({ ts }) => ts >= since);
  const last = said.slice(-limit).map(saidJson);
  if (given.json) return c2c.sayJson(last);
  if (last.length === 0) return c2c.say('nothing was said');
  for (const one of last) sayLine(c2c, one);
}

async function members(c2c: C2c, given: Given, words: string[]): Promise<void> {
  const room = oneRoom(words);
  await refuseUnknownRoom(c2c, room);
  const [found] = (await roomsJson(c2c.broker)).filter(({ room_id }) => room_id === room);
  const details = (found?.['member_details'] ?? []) as { alias: string; alive: boolean | null }[];
  if (given.json) return c2c.sayJson(details);
  for (const { alias, alive } of details)
    c2c.say(`${alias.padEnd(24)} ${alive === null ? 'unknown' : alive ? 'alive' : 'gone'}`);
}

function sayLine(c2c: C2c, { ts, from_alias, content }: { ts: number; from_alias: string; content: string }): void {
  c2c.say(`[${minuteOf(ts)}] <${lineForModel(from_alias, 64)}> ${lineForModel(content, 2000)}`);
}

function othersIn(count: number): string {
  return count === 0 ? 'nobody else' : count === 1 ? '1 other' : `${count} others`;
}

function oneRoom(words: string[]): string {
  const [name, ...others] = words;
  if (name === undefined || others.length > 0) throw new Refusal('invalid_request', USAGE);
  return readRoom(name);
}

async function refuseUnknownRoom(c2c: C2c, room: string): Promise<void> {
  const rooms = c2c.broker.rooms.existing();
  if (rooms.includes(room)) return;
  const [near] = nearest(room, rooms);
  const hint = near === undefined ? `create it: \`c2c rooms join ${room}\`` : `did you mean ${near}?`;
  throw new Refusal('unknown_recipient', `there is no room ${room}; ${hint}`);
}

function count(text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise;
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw new Refusal('invalid_request', `"${text}" is not a number of messages`);
}

/** Reads a time as seconds since 1970: given as such, as an ISO time, or as a span before now (30m, 24h, 7d). */
function sinceOf(text: string, now: number): number {
  const [, number, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  if (number !== undefined) return now - Number(number) * { m: 60, h: 3600, d: 86_400 }[unit as 'm' | 'h' | 'd'];
  const time = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Date.parse(text) / 1000;
  if (Number.isFinite(time)) return time;
  throw new Refusal(
    'invalid_request',
    `"${text}" is not a time; write 30m, 24h, 7d, seconds since 1970 or an ISO time`,
  );
}

const myRoomsCommand = command({
  usage: 'my-rooms [--json]',
  options: { json: JSON_FLAG },
  async run(c2c: C2c, values) {
    sayRooms(c2c, await roomsJson(c2c.broker, c2c.session()), values.json === true);
  },
});

export const commands = {
  rooms: roomsCommand,
  'my-rooms': myRoomsCommand,
  room: roomsCommand,
};
