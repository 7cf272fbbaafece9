import type { Database } from 'bun:sqlite';
import type { Attention } from '../../protocol/attention.ts';
import type { Message } from '../../protocol/message.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { Evidence, Receipt } from '../../protocol/receipt.ts';
import { deathsNow } from '../holder.ts';
import { Connection } from './connection.ts';
import type { LedgerOptions } from './connection.ts';
import type { Acceptance, Claimed, CopyRecord, Entry, Ledger, Settlement } from './ledger.ts';
import { attentionFrom, attentionText, COPY_COLUMNS, copyFrom, messageFrom } from './rows.ts';
import type { CopyRow } from './rows.ts';
import { isAbandoned, isWaiting, refuseOlderThan, sameOrConflict } from './rules.ts';
import { SqliteRecords } from './sqlite-records.ts';
import { forget, prune } from './sqlite-retention.ts';
import { GONE, HELD, SETTLED, STORED } from './schema.ts';

/** Opens (or makes) the ledger of one home. Safe for many processes at once. */
export function openSqliteLedger(options: LedgerOptions): SqliteLedger {
  return new SqliteLedger(new Connection(options));
}

/** All that is proven of a copy that we did not store ourselves. */
const FOUND: Evidence = { found: 'in the mailbox, without a row of ours' };

/** What was seen of a copy that is not with us any more. */
const LOST: Record<'taken_elsewhere' | 'set_aside', Evidence> = {
  taken_elsewhere: { seen: 'the file was gone when we came to take it' },
  set_aside: { seen: 'the file was no message any more; see `parley doctor`' },
};

type Claimer = { owner: string; until: number; died: ReturnType<typeof deathsNow> };
const SEQ = '(SELECT seq FROM messages WHERE id = ?)';

/** The write half; every method is one transaction. What each promises stands in ledger.ts. */
export class SqliteLedger extends SqliteRecords implements Ledger {
  async accept(entry: Entry): Promise<Acceptance> {
    return this.connection.write((db) => {
      const { message, key } = entry;
      if (key) {
        const earlier = this.keyed(db, message.from, key);
        if (earlier) return sameOrConflict(earlier, entry);
        refuseOlderThan(Number(this.connection.meta('rebuilt') ?? 0), entry);
      }
      if (!this.#insertMessage(db, message, key)) return this.#known(db, entry);
      this.#insertCopies(db, entry, STORED);
      return { message, copies: entry.copies, first: true };
    });
  }

  async adopt(entries: Entry[], as: 'stored' | 'kept'): Promise<void> {
    this.connection.write((db) => {
      for (const entry of entries) {
        const { message, key } = entry;
        // Files are anybody's: a key that names another message already is not believed a second time.
        this.#insertMessage(db, message, key && this.keyed(db, message.from, key) ? undefined : key);
        this.#insertCopies(db, entry, as === 'kept' ? SETTLED : STORED, FOUND);
      }
    });
  }

  async claim(mailbox: AgentName, ids: MessageId[], owner: string, until: number): Promise<Claimed> {
    return this.connection.write((db) => {
      const result: Claimed = { won: [], unknown: [], spent: [], busy: [] };
      const take = db.query<never, [string, number, string, string]>(
        `UPDATE copies SET state = ${HELD}, owner = ?, until = ?
         WHERE seq = ${SEQ} AND mailbox = ? AND state = ${STORED} RETURNING attempt, attention`,
      );
      const died = deathsNow();
      for (const id of ids) {
        // As bare values: making an object of each row costs as much as the update.
        const [won] = take.values(owner, until, id, mailbox) as [number, string][];
        if (won) result.won.push({ id, attempt: won[0], attention: attentionFrom(won[1]) });
        else this.#claimHeld(db, mailbox, id, { owner, until, died }, result);
      }
      return result;
    });
  }

  /** The rare half of a claim: the copy is not simply waiting. */
  #claimHeld(db: Database, mailbox: AgentName, id: MessageId, by: Claimer, result: Claimed): void {
    const { owner, until, died } = by;
    const copy = this.copyIn(db, mailbox, id);
    if (!copy) result.unknown.push(id);
    else if (copy.state === 'settled') result.spent.push(id);
    // What waits for a time is in nobody's hand: whoever asks for it by name may have it.
    else if (copy.owner !== null && !isAbandoned(copy, this.connection.now(), died)) result.busy.push(id);
    else {
      // Whoever had it, a reader that died or another program, may have read it.
      const attempt = copy.attempt + (copy.state === 'gone' || copy.owner !== null ? 1 : 0);
      db.query(
        `UPDATE copies SET state = ${HELD}, owner = ?, until = ?, attempt = ?, settled_at = NULL
         WHERE seq = ${SEQ} AND mailbox = ?`,
      ).run(owner, until, attempt, id, mailbox);
      result.won.push({ id, attempt, attention: copy.attention });
    }
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
    const by = JSON.stringify(settlement.by);
    const now = this.connection.now();
    class Lost extends Error {}
    try {
      this.connection.write((db) => {
        const end = db.query(
          `UPDATE copies SET state = ${SETTLED}, disposition = ?, settled_at = ?, settled_by = ?, keep = ?, owner = NULL,
             until = NULL WHERE seq = ${SEQ} AND mailbox = ? AND state = ${HELD} AND owner = ?`,
        );
        const keep = settlement.keep ? 1 : 0;
        for (const id of ids) {
          if (end.run(settlement.disposition, now, by, keep, id, mailbox, owner).changes === 0) throw new Lost();
        }
        show?.();
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
  ): Promise<MessageId[]> {
    return this.connection.write((db) => {
      const back = db.query<{ attention: string }, [number, number | null, string, string, string]>(
        `UPDATE copies SET state = ?, owner = NULL, until = ?
         WHERE seq = ${SEQ} AND mailbox = ? AND state = ${HELD} AND owner = ? RETURNING attention`,
      );
      const released: MessageId[] = [];
      for (const id of ids) {
        const row = back.get(until === null ? STORED : HELD, until, id, mailbox, owner);
        if (!row) continue;
        this.#note(db, mailbox, id, 'released', because);
        if (until === null) putBack?.(id, attentionFrom(row.attention));
        released.push(id);
      }
      return released;
    });
  }

  async abandoned(): Promise<CopyRecord[]> {
    const sql = `SELECT ${COPY_COLUMNS} FROM copies c JOIN messages m USING (seq) WHERE c.state = ${HELD}`;
    const held = this.connection.read((db) => db.query<CopyRow, []>(sql).all());
    const died = deathsNow();
    return held.map(copyFrom).filter((copy) => isAbandoned(copy, this.connection.now(), died));
  }

  async restore({ mailbox, id, owner }: CopyRecord, putBack: () => void): Promise<boolean> {
    return this.connection.write((db) => {
      const copy = this.copyIn(db, mailbox, id);
      if (copy?.state !== 'held' || copy.owner !== owner || !isAbandoned(copy, this.connection.now())) return false;
      const attempt = copy.attempt + (owner === null ? 0 : 1);
      db.query(
        `UPDATE copies SET state = ${STORED}, owner = NULL, until = NULL, attempt = ? WHERE seq = ${SEQ} AND mailbox = ?`,
      ).run(attempt, id, mailbox);
      if (owner !== null)
        this.#note(db, mailbox, id, 'released', { because: 'the reader died or let its lease run out' });
      putBack();
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
      for (const copy of before)
        if (isWaiting(copy)) end.run(this.connection.now(), JSON.stringify(by), id, copy.mailbox);
      return before;
    });
  }

  async lost(
    mailbox: AgentName,
    id: MessageId,
    how: 'taken_elsewhere' | 'set_aside' = 'taken_elsewhere',
  ): Promise<void> {
    this.connection.write((db) => {
      // What was settled stays so; only a withdrawal can find afterwards that the copy was gone before it.
      const gone = db
        .query(
          `UPDATE copies SET state = ${GONE}, owner = NULL, until = NULL, settled_at = ?
           WHERE seq = ${SEQ} AND mailbox = ? AND (state < ${SETTLED} OR disposition = 'superseded')`,
        )
        .run(this.connection.now(), id, mailbox).changes;
      if (gone > 0) this.#note(db, mailbox, id, how, LOST[how]);
    });
  }

  async reconsider(mailbox: AgentName, id: MessageId, attention: Attention): Promise<void> {
    this.connection.write((db) =>
      db
        .query(`UPDATE copies SET attention = ? WHERE seq = ${SEQ} AND mailbox = ?`)
        .run(attentionText(attention), id, mailbox),
    );
  }

  async record(mailbox: AgentName, id: MessageId, receipt: Receipt): Promise<void> {
    this.connection.write((db) => this.#note(db, mailbox, id, receipt.step, receipt.evidence, Date.parse(receipt.at)));
  }

  async prune(cut: { bodies: number | null; facts: number | null }): Promise<{ bodies: number; messages: number }> {
    return this.connection.erase(() => prune(this.connection, cut));
  }

  async forget(agent: AgentName): Promise<{ copies: number; messages: number }> {
    return this.connection.erase(() => this.connection.write((db) => forget(db, agent)));
  }

  async isFresh(): Promise<boolean> {
    return this.connection.isFresh();
  }

  async complete(): Promise<void> {
    this.connection.complete();
  }

  async close(): Promise<void> {
    this.connection.close();
  }

  /** False if this id has a row already: it keeps it. */
  #insertMessage(db: Database, message: Message, key: string | undefined): boolean {
    const insert = db.query(
      'INSERT INTO messages (id, sender, key, root, at, json) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING',
    );
    const root = message.parley?.lineage?.root ?? message.id;
    const at = Date.parse(message.ts) || this.connection.now();
    return insert.run(message.id, message.from, key ?? null, root, at, JSON.stringify(message)).changes > 0;
  }

  /** A copy that has a row keeps it. */
  #insertCopies(db: Database, { message, copies }: Entry, state: number, found?: Evidence): void {
    const insert =
      db.query(`INSERT INTO copies (seq, mailbox, state, attention, disposition, settled_at, settled_by, keep)
      VALUES (${SEQ}, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`);
    const kept = state === SETTLED;
    const by = JSON.stringify({ seen: 'kept in cur/ when the ledger was rebuilt' });
    for (const { mailbox, attention } of copies) {
      const { changes } = insert.run(
        message.id,
        mailbox,
        state,
        attentionText(attention),
        kept ? 'acknowledged' : null,
        kept ? this.connection.now() : null,
        kept ? by : null,
        kept ? 1 : 0,
      );
      if (found && changes > 0) this.#note(db, mailbox, message.id, 'stored', found);
    }
  }

  /** What stands under the id of this entry. */
  #known(db: Database, { message }: Entry): Acceptance {
    const row = db.query<{ json: string }, [string]>('SELECT json FROM messages WHERE id = ?').get(message.id);
    return { message: row ? messageFrom(row.json) : message, copies: this.copiesIn(db, message.id), first: false };
  }

  #note(
    db: Database,
    mailbox: AgentName,
    id: MessageId,
    step: string,
    evidence: Evidence,
    at = this.connection.now(),
  ): void {
    db.query(`INSERT INTO receipts (seq, mailbox, step, at, evidence) VALUES (${SEQ}, ?, ?, ?, ?)`).run(
      id,
      mailbox,
      step,
      at,
      JSON.stringify(evidence),
    );
  }
}
