import { withoutFile, queueExport, SqliteExportQueue } from './export-queue.ts';
import type { Database } from 'bun:sqlite';
import type { Attention } from '../../core/attention/attention.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { Evidence, Receipt } from '../../core/receipt.ts';
import { deathsNow } from '../../platform/holder.ts';
import { LEASE_ENDED } from '../../core/ports/journal.ts';
import type { Claimed, CopyRecord, Settlement } from '../../core/ports/journal.ts';
import { complete } from './meta.ts';
import { attentionFrom, attentionText, COPY_COLUMNS, copyFrom } from './rows.ts';
import type { CopyRow } from './rows.ts';
import { isAbandoned, isWaiting } from './rules.ts';
import { catchUp } from './records.ts';
import { forget, prune } from './retention.ts';
import { GONE, HELD, SETTLED, STORED } from './schema.ts';

/** The evidence for a copy that is gone. */
const LOST: Record<'taken_elsewhere' | 'set_aside', Evidence> = {
  taken_elsewhere: { seen: 'the file was gone when we tried to take it' },
  set_aside: { seen: 'the file was no longer a message; see `parley doctor`' },
};

/** A copy that was released. */
interface ReleasedRow {
  seq: number;
  late: number;
  attention: string;
}

const SEQ = '(SELECT seq FROM messages WHERE id = ?)';
/** A copy that ends before it has a file never gets one. */
const NEVER_FILED = `DELETE FROM unfiled WHERE seq = ${SEQ} AND mailbox = ? AND drafted = 0`;

/** Claims, settles and releases copies. Every method is one transaction; core/ports/journal.ts documents each. */
export class SqliteCopies extends SqliteExportQueue {
  async claim(mailbox: AgentName, ids: MessageId[], owner: string, until: number): Promise<Claimed> {
    const { connection } = this;
    const claimed = connection.write((db) => claim(db, mailbox, ids, { owner, until, now: connection.now() }));
    return claimed.won.length > 0 && connection.reserve.isSpent ? { ...claimed, isScarce: true } : claimed;
  }

  async renew(mailbox: AgentName, owner: string, until: number): Promise<number> {
    return this.connection.write(
      (db) =>
        db
          .query(`UPDATE copies SET until = ? WHERE mailbox = ? AND owner = ? AND state = ${HELD}`)
          .run(until, mailbox, owner).changes,
    );
  }

  async settle(
    mailbox: AgentName,
    owner: string,
    ids: MessageId[],
    settlement: Settlement,
    show?: () => void,
  ): Promise<MessageId[] | null> {
    const by = settledBy(settlement.by);
    const now = this.connection.now();
    class Lost extends Error {}
    // On a full disk the transaction runs twice.
    let isShown = false;
    try {
      this.connection.write((db) => {
        const end = db.query(
          `UPDATE copies SET state = ${SETTLED}, disposition = ?, settled_at = ?, settled_by = ?, keep = ?, owner = NULL,
             until = NULL WHERE seq = ${SEQ} AND mailbox = ? AND state = ${HELD} AND owner = ?`,
        );
        const keep = settlement.keep ? 1 : 0;
        for (const id of ids) {
          if (end.run(settlement.disposition, now, by, keep, id, mailbox, owner).changes === 0) throw new Lost();
          if (settlement.taker !== undefined) assign(db, mailbox, id, settlement.taker);
        }
        if (!isShown) show?.();
        isShown = true;
      });
      return ids;
    } catch (error) {
      if (error instanceof Lost) return null;
      throw error;
    }
  }

  async release(
    mailbox: AgentName,
    owner: string,
    ids: MessageId[],
    until: number | null,
    because: Evidence,
    putBack?: (id: MessageId, attention: Attention) => void,
    begun = false,
  ): Promise<MessageId[]> {
    return this.connection.write((db) => {
      const back = db.query<ReleasedRow, [number, number | null, number, string, string, string]>(
        `UPDATE copies SET state = ?, owner = NULL, until = ?, attempt = attempt + ?
         WHERE seq = ${SEQ} AND mailbox = ? AND state = ${HELD} AND owner = ? RETURNING seq, late, attention`,
      );
      const released: MessageId[] = [];
      for (const id of ids) {
        const row = back.get(until === null ? STORED : HELD, until, begun ? 1 : 0, id, mailbox, owner);
        if (!row) continue;
        this.note(db, mailbox, id, 'released', because);
        if (until === null && row.late === 2) queueExport(db, { seq: row.seq, mailbox });
        else if (until === null) putBack?.(id, attentionFrom(row.attention));
        released.push(id);
      }
      return released;
    });
  }

  async abandoned(): Promise<CopyRecord[]> {
    // Bearer claims and delayed copies end by time alone, so SQL can skip them: a host may hold thousands.
    const sql = `SELECT ${COPY_COLUMNS} FROM copies c JOIN messages m USING (seq) WHERE c.state = ${HELD}
      AND (ifnull(c.until, 0) <= ? OR (c.owner IS NOT NULL AND c.owner NOT GLOB 'bearer.*'))`;
    const now = this.connection.now();
    const held = this.connection.read((db) => db.query<CopyRow, [number]>(sql).all(now));
    const died = deathsNow();
    return held.map(copyFrom).filter((copy) => isAbandoned(copy, now, died));
  }

  async restore({ mailbox, id, owner }: CopyRecord, putBack: () => void): Promise<boolean> {
    return this.connection.write((db) => {
      const copy = this.copyIn(db, mailbox, id);
      if (copy?.state !== 'held' || copy.owner !== owner || !isAbandoned(copy, this.connection.now())) return false;
      const attempt = copy.attempt + (owner === null ? 0 : 1);
      const back = db.query<ReleasedRow, [number, string, string]>(
        `UPDATE copies SET state = ${STORED}, owner = NULL, until = NULL, attempt = ? WHERE seq = ${SEQ} AND mailbox = ?
         RETURNING seq, late, attention`,
      );
      const row = back.get(attempt, id, mailbox);
      if (owner !== null) this.note(db, mailbox, id, 'released', { because: LEASE_ENDED });
      if (row?.late === 2) queueExport(db, { seq: row.seq, mailbox });
      else putBack();
      return true;
    });
  }

  async withdraw(id: MessageId, by: Evidence): Promise<CopyRecord[]> {
    return this.connection.write((db) => {
      const before = this.copiesIn(db, id);
      const end = db.query(
        `UPDATE copies SET state = ${SETTLED}, disposition = 'superseded', settled_at = ?, settled_by = ?, owner = NULL, until = NULL
         WHERE seq = ${SEQ} AND mailbox = ?`,
      );
      for (const { mailbox } of before.filter(isWaiting)) {
        end.run(this.connection.now(), settledBy(by), id, mailbox);
        db.query(NEVER_FILED).run(id, mailbox);
      }
      return before;
    });
  }

  async lost(
    mailbox: AgentName,
    id: MessageId,
    how: 'taken_elsewhere' | 'set_aside' = 'taken_elsewhere',
  ): Promise<void> {
    this.connection.write((db) => {
      // Settled copies stay settled. Only a withdrawal can find that its copy was already gone.
      const gone = db
        .query(
          `UPDATE copies SET state = ${GONE}, owner = NULL, until = NULL, settled_at = ?
           WHERE seq = ${SEQ} AND mailbox = ? AND (state < ${SETTLED} OR disposition = 'superseded')`,
        )
        .run(this.connection.now(), id, mailbox).changes;
      db.query(NEVER_FILED).run(id, mailbox);
      if (gone > 0) this.note(db, mailbox, id, how, LOST[how]);
    });
  }

  async reconsider(mailbox: AgentName, id: MessageId, attention: Attention): Promise<void> {
    this.connection.write((db) =>
      db
        .query(`UPDATE copies SET attention = ? WHERE seq = ${SEQ} AND mailbox = ?`)
        .run(attentionText(attention), id, mailbox),
    );
  }

  async assign(mailbox: AgentName, id: MessageId, taker: AgentName): Promise<void> {
    this.connection.write((db) => assign(db, mailbox, id, taker));
  }

  async record(mailbox: AgentName, id: MessageId, receipt: Receipt): Promise<void> {
    this.connection.write((db) => this.note(db, mailbox, id, receipt.step, receipt.evidence, Date.parse(receipt.at)));
  }

  async prune(cut: { bodies: number | null; facts: number | null }): Promise<{ bodies: number; messages: number }> {
    return this.connection.erase(() => prune(this.connection, cut));
  }

  async forget(agent: AgentName): Promise<{ copies: number; messages: number }> {
    catchUp(this.connection, 'sent');
    return this.connection.erase(() => this.connection.write((db) => forget(db, agent, this.connection.now())));
  }

  async complete(): Promise<void> {
    complete(this.connection);
  }

  async close(): Promise<void> {
    this.connection.close();
  }
}

/** The text for the column `settled_by`. Only `assign` writes a `taker` there: a `taker` in the evidence would look like an assigned copy. */
function settledBy(by: Evidence): string {
  return JSON.stringify({ ...by, taker: undefined });
}

/** See `assign` in core/ports/journal.ts. Runs inside the caller's transaction. */
function assign(db: Database, mailbox: AgentName, id: MessageId, taker: AgentName): void {
  const taken = db
    .query(
      `UPDATE copies SET settled_by = json_set(ifnull(settled_by, '{}'), '$.taker', ?)
       WHERE seq = ${SEQ} AND mailbox = ? AND state = ${SETTLED} AND settled_by ->> '$.taker' IS NULL`,
    )
    .run(taker, id, mailbox).changes;
  if (taken === 0) return;
  db.query(
    `INSERT INTO copies (seq, mailbox, state, attempt, attention, disposition, settled_at, settled_by)
     SELECT seq, ?, state, attempt, attention, disposition, settled_at, settled_by FROM copies
     WHERE seq = ${SEQ} AND mailbox = ? ON CONFLICT DO NOTHING`,
  ).run(taker, id, mailbox);
  db.query(`UPDATE receipts SET mailbox = ? WHERE seq = ${SEQ} AND mailbox = ?`).run(taker, id, mailbox);
  db.query('UPDATE OR REPLACE duties SET mailbox = ? WHERE id = ? AND mailbox = ?').run(taker, id, mailbox);
}

/** The state of a copy as an array: making an object of each row would cost as much as the update. */
type CopyValues = [
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
/** Takes a waiting copy. It does not set `settled_at`, which would rewrite the index of open copies. */
const TAKE = `UPDATE copies SET state = ${HELD}, owner = ?, until = ? WHERE seq = ? AND mailbox = ?`;
const TAKE_AGAIN = `UPDATE copies SET state = ${HELD}, owner = ?, until = ?, attempt = ?, settled_at = NULL
  WHERE seq = ? AND mailbox = ?`;

/**
 * Claims as many of these ids as possible, inside the caller's transaction. A read and then an update by sequence number take half the
 * time of one statement that does both.
 */
function claim(
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
    const [copy] = look.values(id, mailbox) as CopyValues[];
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
    // A delayed copy has no owner: a reader that asks for it by id gets it.
    else if (holder !== null && !isAbandoned({ owner: holder, until: end }, now, died)) result.busy.push(id);
    else {
      // Its last owner, a dead reader or another program, may have read it.
      const again = attempt + (state === GONE || holder !== null ? 1 : 0);
      db.query(TAKE_AGAIN).run(owner, until, again, seq, mailbox);
      win(again);
    }
  }
  return result;
}
