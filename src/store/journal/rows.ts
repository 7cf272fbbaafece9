import type { Database } from 'bun:sqlite';
import { goneBack } from './rules.ts';
import { metaOf, setMeta } from './meta.ts';
import { Attention } from '../../core/attention/attention.ts';
import { readMessage } from '../../core/message.ts';
import type { Message } from '../../core/message.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import { Evidence } from '../../core/receipt.ts';
import type { Disposition } from '../../core/receipt.ts';
import { isBearer } from '../../platform/holder.ts';
import type { JournalConnection } from './connection.ts';
import type { CopyRecord } from '../../core/ports/journal.ts';
import { STATES } from './schema.ts';

/** The position up to which copies were scanned for obligations: see `numberAt` in rules.ts. */
export function entered(db: Database): number {
  return Number(metaOf(db, 'entered') ?? 0);
}

export function setEntered(db: Database, place: number): void {
  setMeta(db, 'entered', String(place));
}

/** Makes the next scan include this message again: a copy of it was found later. */
export function enterAgain(db: Database, seq: number): void {
  setEntered(db, goneBack(entered(db), seq));
}

/** A row of `copies`, joined with its message's id. */
export interface CopyRow {
  id: string;
  mailbox: string;
  state: number;
  attempt: number;
  attention: string;
  owner: string | null;
  until: number | null;
  disposition: string | null;
  settled_at: number | null;
  settled_by: string | null;
  keep: number;
  fileless: number;
}

export const FILELESS = `c.late > 0 AND (c.late = 2
  OR EXISTS (SELECT 1 FROM unfiled u WHERE u.seq = c.seq AND u.mailbox = c.mailbox AND u.drafted = 0))`;
export const COPY_COLUMNS = `m.id, c.mailbox, c.state, c.attempt, c.attention, c.owner, c.until, c.disposition,
  c.settled_at, c.settled_by, c.keep, ${FILELESS} AS fileless`;

/** Parses a row. An older version may have written it, so it is checked. */
export function copyFrom(row: CopyRow): CopyRecord {
  return {
    id: row.id as MessageId,
    mailbox: row.mailbox as AgentName,
    state: STATES[row.state] ?? 'gone',
    attempt: row.attempt,
    attention: attentionFrom(row.attention),
    owner: row.owner,
    bearer: isBearer(row.owner),
    until: row.until,
    disposition: row.disposition as Disposition | null,
    settledAt: row.settled_at === null ? null : new Date(row.settled_at).toISOString(),
    settledBy: row.settled_by === null ? null : Evidence.parse(JSON.parse(row.settled_by)),
    keep: row.keep === 1,
    ...(row.fileless === 1 && { fileless: true }),
  };
}

export function messageFrom(json: string): Message {
  const message = readMessage(JSON.parse(json));
  if (!message) throw new Error('a row of the journal is not a message');
  return message;
}

/** Few different texts exist, so each is parsed once. */
const parsed = new Map<string, Attention>();

export function attentionFrom(text: string): Attention {
  const known = parsed.get(text);
  if (known) return known;
  const [directedness, policy, injection, reason] = text.split(' ');
  const attention = Attention.parse({ directedness, policy, injection, reason });
  parsed.set(text, attention);
  return attention;
}

/** The next sequence number. Listeners resume after a number, so no number is used twice. */
const NEXT = `max(ifnull((SELECT max(seq) FROM messages), 0),
  ifnull((SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'dropped'), 0)) + 1`;
const INSERT_MESSAGE = `INSERT INTO messages (id, sender, key, root, at, json, seq) VALUES (?, ?, ?, ?, ?, ?, ${NEXT})
  ON CONFLICT (id) DO NOTHING`;

/** Takes a copy out of the export queue. Of two callers one succeeds. */
export const STILL_QUEUED = 'DELETE FROM unfiled WHERE seq = ? AND mailbox = ? AND drafted = 0';

/** Returns the sequence number of the new row, or null if this id already has one. */
export function insertMessage(
  connection: JournalConnection,
  db: Database,
  message: Message,
  key: string | undefined,
  text = JSON.stringify(message),
): number | null {
  const root = message.parley?.lineage?.root ?? message.id;
  const at = Date.parse(message.ts) || connection.now();
  const made = db.query(INSERT_MESSAGE).run(message.id, message.from, key ?? null, root, at, text);
  return made.changes > 0 ? Number(made.lastInsertRowid) : null;
}

/** The text of an attention in its column: four words, each from a closed list. */
export function attentionText(attention: Attention): string {
  return `${attention.directedness} ${attention.policy} ${attention.injection} ${attention.reason}`;
}
