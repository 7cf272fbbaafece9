import type { Database, Statement } from 'bun:sqlite';
import type { Message } from '../../protocol/message.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { Evidence } from '../../protocol/receipt.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { Acceptance, Entry } from './ledger.ts';
import { attentionText, messageFrom } from './rows.ts';
import { refuseOlderThan, sameOrConflict } from './rules.ts';
import { enterAgain } from './sqlite-entered.ts';
import { SqliteRecords } from './sqlite-records.ts';
import { SETTLED, STORED } from './schema.ts';

/** All that is proven of a copy that we did not store ourselves. */
const FOUND: Evidence = { found: 'in the mailbox, without a row of ours' };
const KEPT = JSON.stringify({ seen: 'kept in cur/ when the ledger was rebuilt' });

/** The number after every one that was ever given: listeners resume after a number, so none may come again. */
const NEXT = `max(ifnull((SELECT max(seq) FROM messages), 0),
  ifnull((SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'dropped'), 0)) + 1`;
const insertMessage = (seq: string): string =>
  `INSERT INTO messages (id, sender, key, root, at, json, seq) VALUES (?, ?, ?, ?, ?, ?, ${seq}) ON CONFLICT (id) DO NOTHING`;
const INSERT_MESSAGE = insertMessage(NEXT);
const INSERT_NUMBERED = insertMessage('?');
const INSERT_COPY = `INSERT INTO copies (seq, mailbox, state, attention, disposition, settled_at, settled_by, keep)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`;
const INSERT_LATE = `INSERT INTO copies (seq, mailbox, state, attention, late) VALUES (?, ?, ${STORED}, ?, 1)`;
const SEQ_OF = 'SELECT seq FROM messages WHERE id = ?';

/** How entries come into the SQLite ledger. */
export class SqliteAcceptance extends SqliteRecords {
  async accept(entry: Entry): Promise<Acceptance> {
    return this.connection.write((db) => this.#accept(db, entry, false));
  }

  async acceptTogether(entries: Entry[]): Promise<(Acceptance | Refusal)[]> {
    return this.connection.write((db) => {
      // Nobody else gives out numbers meanwhile.
      let last: number | undefined;
      return entries.map((entry) => {
        try {
          const accepted = this.#accept(db, entry, true, last && last + 1);
          if (accepted.first) last = accepted.seq;
          return accepted;
        } catch (error) {
          // A refused entry has written nothing.
          if (error instanceof Refusal) return error;
          throw error;
        }
      });
    });
  }

  async adopt(entries: Entry[], as: 'stored' | 'kept'): Promise<void> {
    this.connection.write((db) => {
      for (const entry of entries) {
        const { message, key } = entry;
        // Files are anybody's: a key that names another message already is not believed a second time.
        const trusted = key && this.keyed(db, message.from, key) ? undefined : key;
        const made = this.#insertMessage(db, message, trusted);
        const seq = made ?? this.#seqOf(db, message.id);
        const added = this.#insertCopies(db, seq, entry, as === 'kept' ? SETTLED : STORED, FOUND);
        if (made === null && added) enterAgain(db, seq);
      }
    });
  }

  #accept(db: Database, entry: Entry, late: boolean, number?: number): Acceptance {
    const { message, copies, key } = entry;
    if (key) {
      const earlier = this.keyed(db, message.from, key);
      if (earlier) return sameOrConflict(earlier, entry);
      if (entry.firstTried) refuseOlderThan(Number(this.connection.meta('rebuilt') ?? 0), entry);
    }
    const seq = this.#insertMessage(db, message, key, entry.text, number);
    if (seq === null) return this.#known(db, message);
    if (late) insertLate(db, seq, entry);
    else this.#insertCopies(db, seq, entry, STORED);
    return { message, copies, first: true, ...(late && { seq }) };
  }

  /** The number of the new row; null if this id has one already: it keeps it. */
  #insertMessage(
    db: Database,
    message: Message,
    key: string | undefined,
    text = JSON.stringify(message),
    number?: number,
  ): number | null {
    const root = message.parley?.lineage?.root ?? message.id;
    const at = Date.parse(message.ts) || this.connection.now();
    const row = [message.id, message.from, key ?? null, root, at, text] as const;
    const made =
      number === undefined ? db.query(INSERT_MESSAGE).run(...row) : statementsOf(db).numbered.run(...row, number);
    return made.changes > 0 ? Number(made.lastInsertRowid) : null;
  }

  #seqOf(db: Database, id: MessageId): number {
    return db.query<{ seq: number }, [string]>(SEQ_OF).get(id)?.seq ?? 0;
  }

  /** A copy that has a row keeps it. True if one is new that must be answered. */
  #insertCopies(db: Database, seq: number, { message, copies }: Entry, state: number, found?: Evidence): boolean {
    let owes = false;
    const insert = db.query(INSERT_COPY);
    const end = state === SETTLED ? (['acknowledged', this.connection.now(), KEPT, 1] as const) : NOT_ENDED;
    for (const { mailbox, attention } of copies) {
      const { changes } = insert.run(seq, mailbox, state, attentionText(attention), ...end);
      if (found && changes > 0) this.note(db, mailbox, message.id, 'stored', found);
      if (changes > 0 && attention.policy === 'must_respond') owes = true;
    }
    return owes;
  }

  /** What stands under the id of this message. */
  #known(db: Database, message: Message): Acceptance {
    const row = db.query<{ json: string }, [string]>('SELECT json FROM messages WHERE id = ?').get(message.id);
    return { message: row ? messageFrom(row.json) : message, copies: this.copiesIn(db, message.id), first: false };
  }

  protected note(
    db: Database,
    mailbox: AgentName,
    id: MessageId,
    step: string,
    evidence: Evidence,
    at = this.connection.now(),
  ): void {
    db.query(`INSERT INTO receipts (seq, mailbox, step, at, evidence) VALUES ((${SEQ_OF}), ?, ?, ?, ?)`).run(
      id,
      mailbox,
      step,
      at,
      JSON.stringify(evidence),
    );
  }
}

/** Disposition, when, by what, kept. */
const NOT_ENDED = [null, null, null, 0] as const;

function insertLate(db: Database, seq: number, { copies }: Entry): void {
  const { late, unfiled } = statementsOf(db);
  for (const { mailbox, attention } of copies) {
    late.run(seq, mailbox, attentionText(attention));
    unfiled.run(seq, mailbox);
  }
}

type Statements = ReturnType<typeof prepared>;

/** What a relay says thousands of times a second: each need not be looked up by its text. */
const kept = new WeakMap<Database, Statements>();

function statementsOf(db: Database): Statements {
  const statements = kept.get(db) ?? prepared(db);
  kept.set(db, statements);
  return statements;
}

function prepared(db: Database) {
  let numbered: Statement | undefined;
  return {
    /** Only for who accepts many together. */
    get numbered() {
      return (numbered ??= db.query(INSERT_NUMBERED));
    },
    late: db.query(INSERT_LATE),
    unfiled: db.query('INSERT INTO unfiled (seq, mailbox) VALUES (?, ?)'),
  };
}
