import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';

/** Names that only the broker itself may write under. spec: c2c#aliases */
const RESERVED = ['c2c', 'c2c-system'];

function isAlias(text: unknown): text is AgentName {
  return (
    typeof text === 'string' &&
    /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/.test(text) &&
    !RESERVED.includes(text.toLowerCase())
  );
}

export function isC2cSessionId(text: unknown): boolean {
  return typeof text === 'string' && /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$/.test(text);
}

export function isRoom(text: unknown): text is string {
  return typeof text === 'string' && /^[A-Za-z0-9_-]{1,64}$/.test(text);
}

/** Two aliases that differ only by case are one. */
export function isSameAlias(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

/** Checks an alias. spec: c2c#aliases */
export function readAlias(text: unknown): AgentName {
  if (isAlias(text)) return text;
  throw refused(
    text,
    'alias; use 1 to 64 letters, digits, . _ - and no dot in front (c2c and c2c-system are reserved)',
  );
}

/** Checks a session id. It becomes a file name, so nothing that could leave its folder is allowed. spec: c2c#sessions */
export function readSessionId(text: unknown): string {
  if (isC2cSessionId(text)) return text as string;
  throw refused(text, 'session id; use 1 to 128 letters, digits, . _ -');
}

/** Checks the name of a room, with or without #. It becomes a folder name, so nothing that could leave the folder is allowed. spec: c2c#rooms */
export function readRoom(text: unknown): string {
  const name = typeof text === 'string' ? text.replace(/^#/, '') : '';
  if (isRoom(name)) return name;
  throw refused(text, 'room; use 1 to 64 letters, digits, _ -');
}

function refused(text: unknown, what: string): Refusal {
  const shown = String(text)
    .replace(/\p{Cc}/gu, '?')
    .slice(0, 80);
  return new Refusal('invalid_request', `"${shown}" is no ${what}`);
}

/** Refuses an alias of a session that may still run. Names that session and a free alias. spec: c2c#aliases */
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

/** One session in the registry. Unknown fields are kept when it is rewritten. Times are seconds since 1970. spec: c2c#registry */
export interface SessionRow {
  [field: string]: unknown;
  session_id: string;
  alias: string;
  pid?: number | undefined;
  pid_start_time?: number | undefined;
  registered_at?: number | undefined;
  last_activity_ts?: number | undefined;
  client_type?: string | undefined;
  dnd?: boolean | undefined;
  dnd_since?: number | undefined;
  dnd_until?: number | undefined;
}

const KINDS = {
  pid: 'number',
  pid_start_time: 'number',
  registered_at: 'number',
  last_activity_ts: 'number',
  client_type: 'string',
  dnd: 'boolean',
  dnd_since: 'number',
  dnd_until: 'number',
};

/** Reads a row of any program; null if it has no valid session id or alias. A known field of the wrong type counts as missing. */
export function readRow(value: unknown): SessionRow | null {
  const row = { ...(value as Record<string, unknown> | null) };
  if (!isC2cSessionId(row['session_id']) || !isAlias(row['alias'])) return null;
  for (const [name, kind] of Object.entries(KINDS)) if (typeof row[name] !== kind) row[name] = undefined;
  return row as SessionRow;
}
