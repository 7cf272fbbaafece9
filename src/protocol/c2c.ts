import * as v from 'valibot';
import type { AgentName } from './names.ts';
import { Refusal } from './refusal.ts';
import { Schema } from './schema.ts';
import type { Described } from './schema.ts';

/** Names that only the broker itself speaks under. spec: c2c#aliases */
const RESERVED = ['c2c', 'c2c-system'];
const ALIAS = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/;

/** An alias as its owner writes it. Two aliases that differ only by case are one. spec: c2c#aliases */
export function readAlias(text: unknown): AgentName {
  if (typeof text === 'string' && ALIAS.test(text) && !RESERVED.includes(text.toLowerCase())) return text as AgentName;
  const shown = String(text)
    .replace(/\p{Cc}/gu, '?')
    .slice(0, 80);
  throw new Refusal(
    'invalid_request',
    `"${shown}" is no alias; use 1 to 64 letters, digits, . _ - and no dot in front (c2c and c2c-system are taken)`,
  );
}

/** A session's own name. It becomes a file name: nothing that could leave its place passes. spec: c2c#sessions */
export function readSessionId(text: unknown): string {
  if (typeof text === 'string' && /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$/.test(text)) return text;
  const shown = String(text)
    .replace(/\p{Cc}/gu, '?')
    .slice(0, 80);
  throw new Refusal('invalid_request', `"${shown}" is no session id; use 1 to 128 letters, digits, . _ -`);
}

/** A room, with or without its #. It becomes a folder: nothing that could leave its place passes. spec: c2c#rooms */
export function readRoom(text: unknown): string {
  const name = typeof text === 'string' ? text.replace(/^#/, '') : '';
  if (/^[A-Za-z0-9_-]{1,64}$/.test(name)) return name;
  const shown = String(text)
    .replace(/\p{Cc}/gu, '?')
    .slice(0, 80);
  throw new Refusal('invalid_request', `"${shown}" is no room; use 1 to 64 letters, digits, _ -`);
}

/** An alias that a session has which may still run. It keeps it; whoever asked is told by whom, and what else is free. spec: c2c#aliases */
export class AliasTaken extends Refusal {
  constructor(
    readonly alias: string,
    readonly holder: string,
    readonly suggestion: string | null,
    why: string,
  ) {
    const free = suggestion === null ? 'pick another one' : `"${suggestion}" is free`;
    super('name_taken', `the alias "${alias}" belongs to session ${holder} (${why}); ${free}`);
  }
}

/** One message as it stands in an inbox of the broker. Fields that we do not know are kept. spec: c2c#inbox */
export const BrokerEntry = new Schema(() =>
  v.looseObject({
    from_alias: v.string(),
    to_alias: v.string(),
    content: v.string(),
    ts: v.fallback(v.number(), 0),
    message_id: v.fallback(v.optional(v.string()), undefined),
  }),
);
export type BrokerEntry = Described<typeof BrokerEntry>;

/** One session in the registry. Fields that we do not know are kept when it is rewritten. spec: c2c#registry */
export const SessionRow = new Schema(
  () =>
    v.looseObject({
      session_id: v.string(),
      alias: v.string(),
      pid: v.fallback(v.optional(v.number()), undefined),
      pid_start_time: v.fallback(v.optional(v.number()), undefined),
      registered_at: v.fallback(v.optional(v.number()), undefined),
      last_activity_ts: v.fallback(v.optional(v.number()), undefined),
      client_type: v.fallback(v.optional(v.string()), undefined),
      dnd: v.fallback(v.optional(v.boolean()), undefined),
      dnd_since: v.fallback(v.optional(v.number()), undefined),
      dnd_until: v.fallback(v.optional(v.number()), undefined),
    }),
  isPlainRow,
);
export type SessionRow = Described<typeof SessionRow>;

const NUMBERS = ['pid', 'pid_start_time', 'registered_at', 'last_activity_ts', 'dnd_since', 'dnd_until'];

function isPlainRow(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const row = value as Record<string, unknown>;
  return (
    typeof row['session_id'] === 'string' &&
    typeof row['alias'] === 'string' &&
    NUMBERS.every((name) => row[name] === undefined || typeof row[name] === 'number') &&
    (row['client_type'] === undefined || typeof row['client_type'] === 'string') &&
    (row['dnd'] === undefined || typeof row['dnd'] === 'boolean')
  );
}
