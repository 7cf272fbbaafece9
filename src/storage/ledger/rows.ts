import { Attention } from '../../protocol/attention.ts';
import { readMessage } from '../../protocol/message.ts';
import type { Message } from '../../protocol/message.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import { Evidence } from '../../protocol/receipt.ts';
import type { Disposition } from '../../protocol/receipt.ts';
import { isBearer } from '../holder.ts';
import type { CopyRecord } from './ledger.ts';
import { STATES } from './schema.ts';

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

/** What we wrote yesterday is unknown input today. */
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
  if (!message) throw new Error('the ledger holds something that is no message');
  return message;
}

/** There are few different decisions: each text is parsed once. */
const parsed = new Map<string, Attention>();

export function attentionFrom(text: string): Attention {
  const known = parsed.get(text);
  if (known) return known;
  const [directedness, policy, injection, reason] = text.split(' ');
  const attention = Attention.parse({ directedness, policy, injection, reason });
  parsed.set(text, attention);
  return attention;
}
