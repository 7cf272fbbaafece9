import { isTooDeep, readMessage } from '../../core/message.ts';
import type { Message } from '../../core/message.ts';
import { AgentName, isMessageId } from '../../core/names.ts';
import type { MessageId } from '../../core/names.ts';

/** One message as it is in an inbox. Unknown fields are kept. `ts`: seconds since 1970. spec: c2c#inbox */
export interface BrokerEntry {
  [field: string]: unknown;
  from_alias: string;
  to_alias: string;
  content: string;
  ts: number;
  message_id?: string | undefined;
}

const NO_TIME = '1970-01-01T00:00:00.000Z';
/** The defined fields of a message and of an entry. All other fields are copied unchanged between the two. */
const OF_MESSAGE = new Set(['id', 'from', 'to', 'body', 'priority', 'scope', 'thread', 'refs', 'ts', 'parley']);
const OF_ENTRY = new Set(['from_alias', 'to_alias', 'content', 'ts', 'message_id', 'parley']);
/** The form of ids that we give to entries without one. */
const DERIVED = /^c2c-([0-9a-f]{32})-\d+$/;

/** Fields of a message that an entry keeps under the key `parley`, if its own fields cannot hold the value. spec: c2c#entry */
const OURS = ['priority', 'scope', 'thread', 'refs', 'to', 'ts'] as const;

/** Whether a value has the texts of an entry. `ts` and `message_id` may be anything that another program wrote. */
export function isEntry(value: unknown): value is BrokerEntry {
  if (typeof value !== 'object' || value === null) return false;
  const { from_alias, to_alias, content } = value as Record<string, unknown>;
  const isOne = typeof from_alias === 'string' && typeof to_alias === 'string' && typeof content === 'string';
  // An entry that can be read but not written back would block every entry of its inbox.
  return isOne && !isTooDeep(value);
}

/** Reads an entry, and makes sure that its time is a number and its id, if any, a text. Null if the value is not an entry. */
export function readEntry(value: unknown): BrokerEntry | null {
  if (!isEntry(value)) return null;
  const { ts, message_id: id } = value as Record<string, unknown>;
  return { ...value, ts: typeof ts === 'number' ? ts : 0, message_id: typeof id === 'string' ? id : undefined };
}

/** A message as the text of an entry. The time is always written as a float, because the original refuses whole numbers. */
export function entryText(message: Message, mailbox: AgentName): string {
  const { id, from, to, body, ts, priority, scope, thread, refs, parley, ...unknown } = message;
  const room = /^#([A-Za-z0-9_-]+)$/.exec(to)?.[1];
  const toAlias = room === undefined ? mailbox : `${mailbox}#${room}`;
  const seconds = Date.parse(ts) / 1000 || 0;
  const free: Record<string, unknown> = {};
  const rest: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(unknown)) (OF_ENTRY.has(name) ? rest : free)[name] = value;
  const ours = {
    ...(priority !== 'normal' && { priority }),
    ...(scope !== undefined && { scope }),
    ...(thread !== undefined && { thread }),
    ...(refs !== undefined && { refs }),
    ...(parley !== undefined && { extras: parley }),
    ...(Object.keys(rest).length > 0 && { rest }),
    ...(toOf(toAlias, mailbox) !== to && { to }),
    ...(timeOf(seconds) !== ts && { ts }),
  };
  const start = JSON.stringify({ from_alias: from, to_alias: toAlias, content: body });
  const end = JSON.stringify({
    ...free,
    message_id: id,
    ...(Object.keys(ours).length > 0 && { parley: { v: 1, ...ours } }),
  });
  const time = Number.isInteger(seconds) ? seconds.toFixed(1) : String(seconds);
  return `${start.slice(0, -1)},"ts":${time},${end.slice(1)}`;
}

/** The message of an entry, ours or another program's. Fields under `parley` are validated like any input from outside. */
export function messageOf(entry: BrokerEntry, mailbox: AgentName, id: MessageId): Message {
  const unknown: Record<string, unknown> = {};
  for (const name in entry) if (!OF_ENTRY.has(name) && !OF_MESSAGE.has(name)) unknown[name] = entry[name];
  const plain = {
    id,
    from: entry.from_alias,
    to: toOf(entry.to_alias, mailbox),
    body: entry.content,
    priority: 'normal',
    ts: timeOf(entry.ts),
  };
  const { parley } = entry;
  if (parley === undefined) return { ...unknown, ...plain };
  const ours = isRecord(parley) ? parley : {};
  const { extras, rest } = ours;
  const told = Object.fromEntries(OURS.filter((name) => ours[name] !== undefined).map((name) => [name, ours[name]]));
  const message = readMessage({ ...plain, ...told, ...(extras !== undefined && { parley: extras }) });
  return { ...unknown, ...(isRecord(rest) && rest), ...(message ?? plain) };
}

/** The id of an entry, if it is valid; else null. */
export function idOf(entry: BrokerEntry): MessageId | null {
  return isMessageId(entry.message_id) ? entry.message_id : null;
}

/** Identifies entries without an id. Two entries with the same texts and time have the same fingerprint. */
export function entryFingerprint({ from_alias, to_alias, content, ts }: BrokerEntry): string {
  const words = JSON.stringify([from_alias, to_alias, content, ts ?? 0]);
  return new Bun.CryptoHasher('sha256').update(words).digest('hex').slice(0, 32);
}

export function derivedId(print: string, n: number): MessageId {
  return `c2c-${print}-${n}` as MessageId;
}

/** The fingerprint in an id that we made; undefined for any other id. */
export function printIn(id: MessageId): string | undefined {
  return DERIVED.exec(id)?.[1];
}

function toOf(toAlias: string, mailbox: AgentName): string {
  const [alias = '', room] = toAlias.split('#');
  if (room !== undefined) return /^[A-Za-z0-9_-]+$/.test(room) ? `#${room}` : `@${mailbox}`;
  const isOther = alias.toLowerCase() !== mailbox.toLowerCase() && AgentName.safeParse(alias).success;
  return `@${isOther ? alias : mailbox}`;
}

function timeOf(seconds: unknown): string {
  const ms = typeof seconds === 'number' ? Math.round(seconds * 1000) : 0;
  return ms >= 0 && ms < 253_402_300_800_000 ? new Date(ms).toISOString() : NO_TIME;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
