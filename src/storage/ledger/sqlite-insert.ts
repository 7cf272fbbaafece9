import type { Database, Statement } from 'bun:sqlite';
import type { Attention } from '../../protocol/attention.ts';
import type { Message } from '../../protocol/message.ts';
import type { Connection } from './connection.ts';
import { STORED } from './schema.ts';

/** The number after every one that was ever given: listeners resume after a number, so none may come again. */
const NEXT = `max(ifnull((SELECT max(seq) FROM messages), 0),
  ifnull((SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'dropped'), 0)) + 1`;
const insertMessages = (seq: string): string =>
  `INSERT INTO messages (id, sender, key, root, at, json, seq) VALUES (?, ?, ?, ?, ?, ?, ${seq}) ON CONFLICT (id) DO NOTHING`;
const INSERT_NEXT = insertMessages(NEXT);
const INSERT_NUMBERED = insertMessages('?');
export const INSERT_COPY = `INSERT INTO copies (seq, mailbox, state, attention) VALUES (?, ?, ${STORED}, ?) ON CONFLICT DO NOTHING`;
const INSERT_LATE = `INSERT INTO copies (seq, mailbox, state, attention, late) VALUES (?, ?, ${STORED}, ?, 1)`;

/** Of two who would take a copy from the export queue, one does. */
export const STILL_QUEUED = 'DELETE FROM unfiled WHERE seq = ? AND mailbox = ? AND drafted = 0';

/** The number of the new row; null if this id has one already: it keeps it. */
export function insertMessage(
  connection: Connection,
  db: Database,
  message: Message,
  key: string | undefined,
  text = JSON.stringify(message),
  number?: number,
): number | null {
  const root = message.parley?.lineage?.root ?? message.id;
  const at = Date.parse(message.ts) || connection.now();
  const row = [message.id, message.from, key ?? null, root, at, text] as const;
  const made = number === undefined ? db.query(INSERT_NEXT).run(...row) : statementsOf(db).numbered.run(...row, number);
  return made.changes > 0 ? Number(made.lastInsertRowid) : null;
}

/** Four words of closed lists in one column: short, and readable by hand. */
export function attentionText(attention: Attention): string {
  return `${attention.directedness} ${attention.policy} ${attention.injection} ${attention.reason}`;
}

type Statements = ReturnType<typeof prepared>;

/** What a relay says thousands of times a second: each need not be looked up by its text. */
const kept = new WeakMap<Database, Statements>();

export function statementsOf(db: Database): Statements {
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
    queue: db.query('INSERT INTO unfiled (seq, mailbox) VALUES (?, ?)'),
  };
}
