import type { Database } from 'bun:sqlite';
import type { Message } from '../../core/message.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { Evidence } from '../../core/receipt.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Acceptance, Entry } from '../../core/ports/journal.ts';
import { metaOf } from './meta.ts';
import { importOldTray } from './old-tray.ts';
import { FEW } from './reserve.ts';
import { attentionText, enterAgain, insertMessage, messageFrom } from './rows.ts';
import { refuseOlderThan, sameOrConflict } from './rules.ts';
import { SqliteRecords } from './records.ts';
import { SETTLED, STORED } from './schema.ts';

/** The evidence for a copy that another program stored. */
const FOUND: Evidence = { found: 'in the mailbox, without a row in the journal' };
const KEPT = JSON.stringify({ seen: 'kept in cur/ when the ledger was rebuilt' });
/** The columns state, disposition, settled_at, settled_by, keep. */
const STILL_WAITING = [STORED, null, null, null, 0] as const;

const INSERT_COPY = `INSERT INTO copies (seq, mailbox, attention, state) VALUES (?, ?, ?, ${STORED}) ON CONFLICT DO NOTHING`;
const INSERT_LATE = `INSERT INTO copies (seq, mailbox, attention, state, late) VALUES (?, ?, ?, ${STORED}, 1)`;
const INSERT_FOUND = `INSERT INTO copies (seq, mailbox, attention, state, disposition, settled_at, settled_by, keep)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`;
const SEQ_OF = 'SELECT seq FROM messages WHERE id = ?';

/** Accepts messages, and makes rows for those of other programs. core/ports/journal.ts documents each method. */
export class SqliteSending extends SqliteRecords {
  async accept(entry: Entry): Promise<Acceptance> {
    return this.connection.writeNew((db) => this.#accept(db, entry, false));
  }

  async acceptTogether(entries: Entry[]): Promise<(Acceptance | Refusal)[]> {
    return this.connection.writeNew((db) => this.#acceptAll(db, entries));
  }

  importOldTray(isExporter = false): void {
    importOldTray(this.connection, isExporter, (db, entries) => this.#acceptAll(db, entries));
  }

  async adopt(entries: Entry[], as: 'stored' | 'kept'): Promise<void> {
    const insert = (db: Database): void => {
      for (const entry of entries) {
        const { message, key } = entry;
        // Any program can write a file: a key that already names another message is ignored.
        const trusted = key && this.keyed(db, message.from, key) ? undefined : key;
        const made = insertMessage(this.connection, db, message, trusted);
        const seq = made ?? this.#seqOf(db, message.id);
        const added = this.#insertCopies(db, seq, entry, as);
        if (made === null && added) enterAgain(db, seq);
      }
    };
    if (entries.length > FEW) this.connection.writeNew(insert);
    else this.connection.write(insert);
  }

  #acceptAll(db: Database, entries: Entry[]): (Acceptance | Refusal)[] {
    return entries.map((entry) => {
      try {
        return this.#accept(db, entry, true);
      } catch (error) {
        // A refused entry has written nothing.
        if (error instanceof Refusal) return error;
        throw error;
      }
    });
  }

  /** `isLate`: its copies get their files later. */
  #accept(db: Database, entry: Entry, isLate: boolean): Acceptance {
    const { message, copies, key, text } = entry;
    const earlier = key ? this.#underKey(db, entry) : null;
    if (earlier) return earlier;
    const seq = insertMessage(this.connection, db, message, key, text);
    if (seq === null) return this.#known(db, message);
    const insert = db.query(isLate ? INSERT_LATE : INSERT_COPY);
    for (const { mailbox, attention } of copies) {
      insert.run(seq, mailbox, attentionText(attention));
      if (isLate) db.query('INSERT INTO unfiled (seq, mailbox) VALUES (?, ?)').run(seq, mailbox);
    }
    return { message, copies, first: true, ...(isLate && { seq }) };
  }

  /** The answer to a known key, or null for a new one. Refuses a key that may be older than a rebuilt journal. */
  #underKey(db: Database, entry: Entry): Acceptance | null {
    const { message, key = '', firstTried } = entry;
    const earlier = this.keyed(db, message.from, key);
    if (earlier) return sameOrConflict(earlier, entry);
    if (firstTried) refuseOlderThan(Number(metaOf(db, 'rebuilt') ?? 0), entry);
    return null;
  }

  #seqOf(db: Database, id: MessageId): number {
    return db.query<{ seq: number }, [string]>(SEQ_OF).get(id)?.seq ?? 0;
  }

  /** Inserts missing rows. Returns true if a new copy must be answered. */
  #insertCopies(db: Database, seq: number, { message, copies }: Entry, as: 'stored' | 'kept'): boolean {
    let isOwed = false;
    const insert = db.query(INSERT_FOUND);
    const end = as === 'kept' ? ([SETTLED, 'acknowledged', this.connection.now(), KEPT, 1] as const) : STILL_WAITING;
    for (const { mailbox, attention } of copies) {
      const { changes } = insert.run(seq, mailbox, attentionText(attention), ...end);
      if (changes > 0) this.note(db, mailbox, message.id, 'stored', FOUND);
      if (changes > 0 && attention.policy === 'must_respond') isOwed = true;
    }
    return isOwed;
  }

  /** The entry under the id of this message. */
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
