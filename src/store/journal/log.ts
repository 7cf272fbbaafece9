import { closeSync, existsSync, fdatasync, fdatasyncSync, openSync } from 'node:fs';
import { isMissing } from '../../core/disk.ts';
import { holdLock } from '../../platform/lock-file.ts';
import type { HeldLock } from '../../platform/lock-file.ts';

/** If the last flush was faster than this, a lone caller flushes in this thread. */
const QUICK_MS = 2;

interface Opened {
  fd: number;
  /** Flushes under way in other threads. */
  flushes: number;
}

/**
 * The write-ahead log of a journal, opened by us beside SQLite to flush it. Only this one of SQLite's three files may be opened and closed
 * by hand: closing a descriptor of the journal or of its index would release the locks that SQLite holds in this process.
 */
export class LogFile {
  #file: Opened | null = null;
  #lastMs = Infinity;
  /** The error of a failed flush, until the log is restarted. */
  #failure: unknown = null;

  constructor(readonly path: string) {}

  /**
   * Flushes the log to disk in another thread. If `alone` says that no other caller waits and the last flush was quick, it flushes in this
   * thread instead: switching threads adds a third to a short wait. After a flush failed, every flush fails until the log is restarted: a
   * system reports a lost page only once, and the next flush would succeed without it.
   */
  async flush(alone = false): Promise<void> {
    if (this.hasFailed) throw this.#failure;
    const file = this.#opened();
    // No log file: SQLite has moved everything into the journal and flushed it.
    if (!file) return;
    const began = performance.now();
    try {
      if (alone && this.#lastMs < QUICK_MS) fdatasyncSync(file.fd);
      else await this.#flushBeside(file);
    } catch (error) {
      this.#failure = error;
    }
    // A concurrent flush may have failed, too.
    if (this.hasFailed) throw this.#failure;
    this.#lastMs = performance.now() - began;
  }

  get hasFailed(): boolean {
    return this.#failure !== null;
  }

  /** Call when SQLite has copied and flushed the whole log, and writes it from its beginning again. */
  wasRestarted(): void {
    if (!this.hasFailed) return;
    this.#failure = null;
    this.forget();
  }

  async #flushBeside(file: Opened): Promise<void> {
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

  /** Call when the journal is closed or opened again: its log is another file then. */
  forget(): void {
    const file = this.#file;
    this.#file = null;
    if (file) closeIfIdle(file);
  }

  #opened(): Opened | null {
    try {
      this.#file ??= { fd: openSync(this.path, 'r+'), flushes: 0 };
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
    return this.#file;
  }
}

/** Closes the descriptor, but not during a flush: its number could name another file before the flush is done. */
function closeIfIdle({ fd, flushes }: Opened): void {
  if (flushes === 0) closeSync(fd);
}

/** Takes the export lock of a journal; null if another process has it. Its holder exports mail to files and makes the checkpoints. */
export function exportLock(ledger: string): HeldLock | null {
  return holdLock(`${ledger}.keeper`);
}

/** True if a living process holds the export lock. */
export function isExported(ledger: string): boolean {
  if (!existsSync(`${ledger}.keeper`)) return false;
  const lock = exportLock(ledger);
  lock?.release();
  return lock === null;
}
