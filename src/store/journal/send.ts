import { attentionText, INSERT_COPY, insertMessage, statementsOf, STILL_QUEUED, messageFrom } from './rows.ts';
import type { Database } from 'bun:sqlite';
import type { Message } from '../../core/message.ts';
import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import type { CopyNumber, Acceptance, Entry, Troubles } from '../../core/ports/journal.ts';
import { LAST_MESSAGES } from '../../core/ports/journal.ts';
import { importOldTray } from './old-tray.ts';
import { HELD } from './schema.ts';
import { SqliteCopies } from './copies.ts';

/** Each part reads one index entry. */
const TROUBLES = `SELECT (SELECT value FROM meta WHERE name = 'life') AS life,
  EXISTS (SELECT 1 FROM copies WHERE state = ${HELD}) AS held, EXISTS (SELECT 1 FROM unfiled) AS unexported`;

const newestOf = (which: string): string =>
  `SELECT seq FROM (SELECT seq FROM copies WHERE mailbox = ?2 AND seq > ?4 AND ${which} ORDER BY seq DESC LIMIT ${LAST_MESSAGES})`;
/** Reads the two indexes of a mailbox from their newest end; older messages are not read. */
const LAST_BY_NAME = `SELECT m.seq, m.json FROM
    (${newestOf('settled_at IS NULL')} UNION ALL ${newestOf('settled_at IS NOT NULL')} ORDER BY seq DESC LIMIT ${LAST_MESSAGES}) s
  CROSS JOIN messages m ON m.seq = s.seq
  WHERE m.sender = ?1 AND NOT EXISTS (SELECT 1 FROM copies o WHERE o.seq = s.seq AND o.mailbox <> ?2)
    AND m.at >= ?3 AND m.json ->> 'to' IN (?2, '@' || ?2) AND m.json ->> '$.parley.signal' IS NULL
  ORDER BY s.seq DESC LIMIT 1`;
const GOT_ANYTHING = `SELECT EXISTS (SELECT 1 FROM copies WHERE mailbox = ?1 AND settled_at IS NULL)
  OR EXISTS (SELECT 1 FROM copies WHERE mailbox = ?1 AND settled_at IS NOT NULL) AS yes`;

/** Accepts messages. core/ports/journal.ts documents each method. */
export class SqliteSending extends SqliteCopies {
  async accept(entry: Entry): Promise<Acceptance> {
    return this.connection.writeNew((db) => {
      const { message, copies } = entry;
      const seq = this.#new(db, entry, () => {});
      if (typeof seq !== 'number') return seq;
      const insert = db.query(INSERT_COPY);
      for (const { mailbox, attention } of copies) insert.run(seq, mailbox, attentionText(attention));
      return { message, copies, first: true };
    });
  }

  async acceptTogether(entries: Entry[]): Promise<(Acceptance | Refusal)[]> {
    return this.connection.writeNew((db) => this.#acceptAll(db, entries));
  }

  importOldTray(isExporter = false): void {
    importOldTray(this.connection, isExporter, (db, entries) => this.#acceptAll(db, entries));
  }

  #acceptAll(db: Database, entries: Entry[]): (Acceptance | Refusal)[] {
    const { late, queue } = statementsOf(db);
    let unplaced: { seq: number; copies: Entry['copies'] }[] = [];
    // One table after the other: so the inserts take about a sixth less than one message after the other, as the pages of each stay at hand.
    const place = (): void => {
      for (const { seq, copies } of unplaced) {
        for (const { mailbox, attention } of copies) late.run(seq, mailbox, attentionText(attention));
      }
      for (const { seq, copies } of unplaced) for (const { mailbox } of copies) queue.run(seq, mailbox);
      unplaced = [];
    };
    // Nobody else gives out numbers meanwhile.
    let last: number | undefined;
    const outcomes = entries.map((entry) => {
      try {
        const { message, copies } = entry;
        const seq = this.#new(db, entry, place, last && last + 1);
        if (typeof seq !== 'number') return seq;
        last = seq;
        unplaced.push({ seq, copies });
        return { message, copies, first: true, seq };
      } catch (error) {
        // A refused entry has written nothing.
        if (error instanceof Refusal) return error;
        throw error;
      }
    });
    place();
    return outcomes;
  }

  async placed(copies: CopyNumber[]): Promise<boolean[]> {
    return this.connection.write((db) => {
      const done = db.query(STILL_QUEUED);
      return copies.map(({ seq, mailbox }) => done.run(seq, mailbox).changes > 0);
    });
  }

  async unexportedCount(limit: number): Promise<number> {
    const sql = 'SELECT count(*) AS n FROM (SELECT 1 FROM unfiled LIMIT ?)';
    return this.connection.read((db) => db.query<{ n: number }, [number]>(sql).get(limit))?.n ?? 0;
  }

  async troubles(): Promise<Troubles> {
    const row = this.connection.read((db) =>
      db.query<{ life: string | null; held: number; unexported: number }, []>(TROUBLES).get(),
    );
    return { fresh: row?.life !== this.connection.life, held: row?.held === 1, unexported: row?.unexported === 1 };
  }

  async unanswered(from: AgentName, to: AgentName, since: number): Promise<Message | null> {
    return this.connection.read((db) => {
      // An agent that never got a message has nothing to answer. This query is cheap to prepare.
      if (db.query<{ yes: number }, [string]>(GOT_ANYTHING).get(to)?.yes !== 1) return null;
      const last = db.query<{ seq: number; json: string }, [string, string, number, number]>(LAST_BY_NAME);
      const said = last.get(from, to, since, 0);
      if (!said || last.get(to, from, since, said.seq)) return null;
      return messageFrom(said.json);
    });
  }

  async close(): Promise<void> {
    this.connection.close();
  }

  /** The sequence number of a new entry, or the existing entry under its key or id. `placeOthers` writes the copies of earlier entries first. */
  #new(db: Database, entry: Entry, placeOthers: () => void, number?: number): number | Acceptance {
    const { message, key } = entry;
    if (key && this.underKeyOf(db, entry)) {
      placeOthers();
      // Perhaps it is one of those others: then its copies are there only now.
      return this.underKeyOf(db, entry) as Acceptance;
    }
    const seq = insertMessage(this.connection, db, message, key, entry.text, number);
    if (seq !== null) return seq;
    placeOthers();
    return this.known(db, message);
  }
}
