import { closeSync, existsSync, fdatasync, openSync } from 'node:fs';
import { isMissing } from '../disk.ts';
import { holdLock } from '../libc.ts';
import type { HeldLock } from '../libc.ts';

/**
 * The write-ahead log of a ledger, seen from beside SQLite. Only this file of the three may be opened and closed by hand: a closed
 * descriptor of the ledger or of its index would take away the locks that SQLite holds in this process.
 */
export class LogFile {
  #file: { fd: number; flushes: number } | null = null;

  constructor(readonly path: string) {}

  /** What stands in the log is on disk when this returns. The event loop goes on meanwhile. */
  async flush(): Promise<void> {
    const file = this.#opened();
    // Without a log everything was moved into the ledger, with flushes of its own.
    if (!file) return;
    file.flushes += 1;
    try {
      await new Promise<void>((resolve, reject) => {
        fdatasync(file.fd, (error) => (error ? reject(error) : resolve()));
      });
    } finally {
      file.flushes -= 1;
      if (file !== this.#file) closeIfIdle(file);
    }
  }

  /** The ledger was closed or opened anew: its log is another file. */
  forget(): void {
    const file = this.#file;
    this.#file = null;
    if (file) closeIfIdle(file);
  }

  #opened(): { fd: number; flushes: number } | null {
    try {
      this.#file ??= { fd: openSync(this.path, 'r+'), flushes: 0 };
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
    return this.#file;
  }
}

/** A descriptor that is closed during a flush may name another file before the flush is done. */
function closeIfIdle({ fd, flushes }: { fd: number; flushes: number }): void {
  if (flushes === 0) closeSync(fd);
}

/** Who holds this lock keeps house for a ledger as long as it lives: it moves the log, and writes the files of late copies. */
export function keeperLock(ledger: string): HeldLock | null {
  return holdLock(`${ledger}.keeper`);
}

/** Somebody alive keeps house for this ledger. */
export function isKept(ledger: string): boolean {
  if (!existsSync(`${ledger}.keeper`)) return false;
  const lock = keeperLock(ledger);
  lock?.release();
  return lock === null;
}
