import { codeOf, isDiskFull } from '../disk.ts';

/** How long a writer waits for others before it gives up. */
export const PATIENCE_MS = 10_000;

/** True if the file is no readable ledger. */
export function isDamage(error: unknown): boolean {
  return /^SQLITE_(NOTADB|CORRUPT)/.test(codeOf(error) ?? '');
}

/** True if SQLite ran out of disk. Errors about other files do not count: their transaction must not run twice. */
export function isFullLedger(error: unknown): boolean {
  return codeOf(error)?.startsWith('SQLITE_') === true && isDiskFull(error);
}

/** Retries while other processes hold the lock, up to a limit. */
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
