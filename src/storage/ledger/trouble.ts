import { codeOf, isDiskFull } from '../disk.ts';

/** How long a writer waits for others before it gives up. */
export const PATIENCE_MS = 10_000;

/** What is in the file is no ledger any more. */
export function isDamage(error: unknown): boolean {
  return /^SQLITE_(NOTADB|CORRUPT)/.test(codeOf(error) ?? '');
}

/** SQLite found no room. Not what `act` in a transaction may say of another file: that one must not be run twice. */
export function isFullLedger(error: unknown): boolean {
  return codeOf(error)?.startsWith('SQLITE_') === true && isDiskFull(error);
}

/** Tries again as long as others are busy, up to a limit. */
export function patiently<T>(act: () => T): T {
  const end = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return act();
    } catch (error) {
      if (!codeOf(error)?.startsWith('SQLITE_BUSY') || performance.now() > end) throw error;
    }
  }
}
