import { Refusal } from '../../protocol/refusal.ts';
import { codeOf, explained } from '../disk.ts';

/** How long a writer waits for others before it gives up. */
export const PATIENCE_MS = 10_000;

/** What is in the file is no ledger any more. */
export function isDamage(error: unknown): boolean {
  return /^SQLITE_(NOTADB|CORRUPT)/.test(codeOf(error) ?? '');
}

/** SQLite's errors as refusals that say what to do. */
export function inOurWords(error: unknown, path: string): unknown {
  const code = codeOf(error) ?? '';
  const refusal = (text: string): Refusal => new Refusal('storage_failed', text);
  if (code.startsWith('SQLITE_FULL')) {
    return refusal(`the disk of ${path} is full; nothing was changed: free some space and run it again`);
  }
  if (/^SQLITE_(READONLY|CANTOPEN|IOERR)/.test(code)) {
    return refusal(
      `${path} cannot be written (${code}); nothing was changed: check the folder's permissions and space`,
    );
  }
  if (code.startsWith('SQLITE_BUSY')) {
    return refusal(`${path} is busy with other writers for over 10 s; nothing was changed: run it again`);
  }
  return explained(error, path, 'nothing was changed');
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
