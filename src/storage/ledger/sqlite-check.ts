import { Database } from 'bun:sqlite';
import { existsSync } from '../fs.ts';

/** How a ledger looks from outside. Looking changes nothing, whatever is found. */
export interface LedgerState {
  /** The format it is written in; null if that cannot be told. */
  format: number | null;
  /** What is wrong with it, in SQLite's words; null if nothing is. */
  trouble: string | null;
}

/** Null if there is no ledger. Reads the whole file: for `parley doctor`, not for every start. */
export function checkLedger(path: string): LedgerState | null {
  if (!existsSync(path)) return null;
  let db: Database | undefined;
  try {
    db = new Database(path, { readonly: true, strict: true });
    db.run('PRAGMA busy_timeout = 2000');
    const format = db.query<{ user_version: number }, []>('PRAGMA user_version').get()?.user_version ?? null;
    const found = db.query<{ quick_check: string }, []>('PRAGMA quick_check(1)').get()?.quick_check ?? 'no answer';
    return { format, trouble: found === 'ok' ? null : found };
  } catch (error) {
    return { format: null, trouble: error instanceof Error ? error.message : String(error) };
  } finally {
    db?.close();
  }
}
