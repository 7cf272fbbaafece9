import type { MessageTurn, RecordedProof } from '../../core/ports/live-session.ts';
import type { MessageId } from '../../core/names.ts';
import type { Evidence } from '../../core/receipt.ts';
import { endingOf, isLast, recordedMessage, turnOutcome } from './record.ts';
import type { MessageRow, OpenCodeRecord } from './record.ts';

/** How many messages are read after a message. Its turn is over by then. */
const MOST = 1000;
const COLUMNS = 'SELECT id, time_created, time_updated, data FROM message WHERE session_id = ?';
/** If a message was given twice, because a summary replaced it before an answer, the later one counts. */
const OURS = `${COLUMNS} AND id LIKE ? ORDER BY id DESC LIMIT 1`;
const BEFORE = `${COLUMNS} AND id < ? ORDER BY id DESC LIMIT 1`;
const BEHIND = `${COLUMNS} AND id > ? ORDER BY id LIMIT ${MOST}`;
/** Selects only some fields, because parts of tools can have megabytes. */
const PARTS = `SELECT data ->> 'type' AS type, data ->> 'tail_start_id' AS tail, data ->> 'overflow' AS overflow FROM part WHERE message_id = ?`;

interface Part {
  type: string | null;
  /** For a compaction: the first message that it left unchanged. */
  tail: string | null;
  /** For a compaction: the model had refused the conversation as too long. */
  overflow: 0 | 1 | null;
}

/** Kinds of parts that OpenCode writes only when a model answers. */
const OUTPUT = ['step-start', 'text', 'reasoning', 'tool', 'step-finish'];

/**
 * `hasFailed`: OpenCode asked the model and got no answer. `replaced`: a summary replaced the message before any proof that a model was given
 * it. `unreadable`: Parley cannot read or understand the record.
 */
export type OpenCodeProof =
  | Extract<RecordedProof, { step: 'shown' }>
  | (Extract<RecordedProof, { step: 'accepted' }> & { hasFailed: boolean })
  | { step: 'replaced'; message: string }
  | { step: 'unreadable' };

/**
 * What the record of OpenCode 1.18 proves about a message; null if it does not have it.
 *
 * OpenCode records a message when it gets it, reads all messages before each request, and records the newest as the parent of the answer. It
 * records the answer before the request, which may fail. So a message was in a request if the answer to it or to a later message has output of
 * a model. A message that a summary replaced was in no later request.
 */
export function openCodeProof(record: OpenCodeRecord, session: string, id: MessageId): OpenCodeProof | null {
  try {
    return proofIn(record, session, id);
  } catch {
    // Versions other than 1.18 may have other tables, and an OpenCode that starts has none yet.
    return { step: 'unreadable' };
  }
}

function proofIn(record: OpenCodeRecord, session: string, id: MessageId): OpenCodeProof | null {
  const [ours] = record.rows<MessageRow>(OURS, session, `%${endingOf(id)}`);
  if (!ours) return null;
  const evidence: Evidence = { record: record.path, id, message: ours.id };
  let isAlone = !isInTurn(record, session, ours.id);
  let hasFailed = false;
  /** The compactions after the message, by their own messages. `last`: the last other message of a user. */
  const compactions = new Map<string, Part>();
  let last = ours.id;
  let shown: Evidence | null = null;
  let end: MessageTurn['end'];
  for (const row of record.rows<MessageRow>(BEHIND, session, ours.id)) {
    const message = recordedMessage(row);
    if (message.role === 'user') {
      const compaction = shown ? undefined : record.rows<Part>(PARTS, row.id).find(({ type }) => type === 'compaction');
      if (compaction) compactions.set(row.id, compaction);
      else last = row.id;
      isAlone = false;
      continue;
    }
    const compaction = compactions.get(message.parentID ?? '');
    if (
      message.summary === true &&
      isLast(message) &&
      !message.error &&
      compaction &&
      !isKept(compaction, ours.id, last)
    )
      return { step: 'replaced', message: ours.id };
    if (message.summary === true || (message.parentID ?? '') < ours.id) continue;
    hasFailed ||= isLast(message);
    if (!record.rows<Part>(PARTS, row.id).some(({ type }) => type !== null && OUTPUT.includes(type))) continue;
    shown ??= { ...evidence, answer: row.id, parent: message.parentID ?? '' };
    if (message.parentID !== ours.id) isAlone = false;
    if (isLast(message)) end = turnOutcome(message, () => record.textOf(row.id) ?? '');
    if (end || !isAlone) break;
  }
  if (!shown) return { step: 'accepted', evidence, hasFailed };
  return { step: 'shown', evidence: shown, ...(isAlone && { turn: { id: ours.id, ...(end && { end }) } }) };
}

/** Was a turn open when this message came, or was an earlier message unanswered? */
function isInTurn(record: OpenCodeRecord, session: string, id: string): boolean {
  const [before] = record.rows<MessageRow>(BEFORE, session, id);
  const message = before && recordedMessage(before);
  return message !== undefined && (message.role === 'user' || !isLast(message));
}

/**
 * Is a message in the requests after a compaction? The newest messages stay unchanged. If the model refused the conversation as too long,
 * OpenCode repeats the last message under another id.
 */
function isKept({ tail, overflow }: Part, id: string, last: string): boolean {
  return (typeof tail === 'string' && id >= tail) || (overflow === 1 && id === last);
}
