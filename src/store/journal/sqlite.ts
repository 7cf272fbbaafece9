import { Database } from 'bun:sqlite';
import { existsSync } from 'node:fs';
import { JournalConnection } from './connection.ts';
import type { LedgerOptions } from './connection.ts';
import type { MailboxJournal } from '../../core/ports/journal.ts';
import { MIGRATIONS } from './schema.ts';
import { SqliteObligations } from './obligations.ts';

/** `checkpoint` is for the exporter. */
export type SqliteJournal = MailboxJournal & Pick<SqliteObligations, 'checkpoint'>;

/** Opens (or makes) the journal of one home. Safe for many processes at once. */
export function openSqliteJournal(options: LedgerOptions): SqliteJournal {
  const ledger = new SqliteObligations(new JournalConnection(options));
  try {
    ledger.importOldTray();
  } catch (error) {
    ledger.connection.close();
    throw error;
  }
  return ledger;
}

/** The state of a journal file. The check changes nothing. */
export interface JournalState {
  /** Its format number; null if it cannot be read. */
  format: number | null;
  /** The error in SQLite's words; null if there is none. */
  trouble: string | null;
  /** Tables and indexes that differ from what the migration steps make: another build wrote them. */
  odd: string[];
}

/** Returns null if there is no journal. Reads the whole file: for `parley doctor`, not for every start. */
export function checkJournal(path: string): JournalState | null {
  if (!existsSync(path)) return null;
  let db: Database | undefined;
  try {
    db = new Database(path, { readonly: true, strict: true });
    db.run('PRAGMA busy_timeout = 2000');
    const format = db.query<{ user_version: number }, []>('PRAGMA user_version').get()?.user_version ?? null;
    const found = db.query<{ quick_check: string }, []>('PRAGMA quick_check(1)').get()?.quick_check ?? 'no answer';
    const trouble = found === 'ok' ? null : found;
    return { format, trouble, odd: trouble === null ? oddIn(db, format ?? 0) : [] };
  } catch (error) {
    return { format: null, trouble: error instanceof Error ? error.message : String(error), odd: [] };
  } finally {
    db?.close();
  }
}

/** Returns what differs from a new journal of that format. */
function oddIn(db: Database, format: number): string[] {
  if (format > MIGRATIONS.length) return [];
  const right = new Database(':memory:');
  try {
    for (const step of MIGRATIONS.slice(0, format)) right.run(step);
    const [found, expected] = [shapeOf(db), shapeOf(right)];
    const names = new Set([...found.keys(), ...expected.keys()]);
    return [...names].filter((name) => found.get(name) !== expected.get(name)).toSorted();
  } finally {
    right.close();
  }
}

/** Tables and indexes by name, without those that SQLite makes by itself. */
function shapeOf(db: Database): Map<string, string> {
  const sql = `SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!'
    AND name NOT LIKE 'words!_%' ESCAPE '!'`;
  const rows = db.query<{ name: string; sql: string }, []>(sql).all();
  return new Map(rows.map((row) => [row.name, row.sql.replaceAll(/--.*$/gm, '').replaceAll(/[\s"]+/g, '')]));
}
