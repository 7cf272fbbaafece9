import type { Database } from 'bun:sqlite';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import { deathsNow } from '../holder.ts';
import type { Claimed } from './ledger.ts';
import { attentionFrom } from './rows.ts';
import { isAbandoned } from './rules.ts';
import { GONE, HELD, SETTLED, STORED } from './schema.ts';
import { withoutFile } from './sqlite-export-queue.ts';

/** How a copy stands, as bare values: making an object of each row costs as much as the update. */
type Standing = [
  seq: number,
  state: number,
  attempt: number,
  attention: string,
  owner: string | null,
  until: number | null,
  late: number,
];

const LOOK = `SELECT c.seq, c.state, c.attempt, c.attention, c.owner, c.until, c.late
  FROM messages m JOIN copies c USING (seq) WHERE m.id = ? AND c.mailbox = ?`;
/** One that simply waits. Without `settled_at`: to name it would write the index of open copies anew. */
const TAKE = `UPDATE copies SET state = ${HELD}, owner = ?, until = ? WHERE seq = ? AND mailbox = ?`;
const TAKE_AGAIN = `UPDATE copies SET state = ${HELD}, owner = ?, until = ?, attempt = ?, settled_at = NULL
  WHERE seq = ? AND mailbox = ?`;

/**
 * Claims what can be claimed of these ids; the caller's transaction keeps all others out meanwhile. Looking first and then
 * writing by number is half the work of one statement that does both and returns what it found.
 */
export function claim(
  db: Database,
  mailbox: AgentName,
  ids: MessageId[],
  by: { owner: string; until: number; now: number },
): Claimed {
  const { owner, until, now } = by;
  const result: Claimed = { won: [], unknown: [], spent: [], busy: [] };
  const look = db.query<never, [string, string]>(LOOK);
  const take = db.query(TAKE);
  const died = deathsNow();
  for (const id of ids) {
    const [copy] = look.values(id, mailbox) as Standing[];
    if (!copy) {
      result.unknown.push(id);
      continue;
    }
    const [seq, state, attempt, attention, holder, end, late] = copy;
    const win = (begun: number): unknown =>
      result.won.push({
        id,
        attempt: begun,
        attention: attentionFrom(attention),
        text: withoutFile(db, { seq, mailbox, late }),
      });
    if (state === STORED) {
      take.run(owner, until, seq, mailbox);
      win(attempt);
    } else if (state === SETTLED) result.spent.push(id);
    // What waits for a time is in nobody's hand: whoever asks for it by name may have it.
    else if (holder !== null && !isAbandoned({ owner: holder, until: end }, now, died)) result.busy.push(id);
    else {
      // Whoever had it, a reader that died or another program, may have read it.
      const again = attempt + (state === GONE || holder !== null ? 1 : 0);
      db.query(TAKE_AGAIN).run(owner, until, again, seq, mailbox);
      win(again);
    }
  }
  return result;
}
