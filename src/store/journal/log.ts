import { closeSync, existsSync, fdatasync, fdatasyncSync, openSync } from 'node:fs';
import { isMissing } from '../../core/disk.ts';
import { holdLock } from '../../platform/lock-file.ts';
import type { HeldLock } from '../../platform/lock-file.ts';

/** A disk that flushes faster than this may be waited for on the spot. */
const QUICK_MS = 2;

interface Opened {
  fd: number;
  /** How many are under way in other threads. */
  flushes: number;
}

/**
 * The write-ahead log of a journal, seen from beside SQLite. Of SQLite's three files only this one may be opened and closed by hand: a
 * closed descriptor of the journal or of its index would take away the locks that SQLite holds in this process.
 */
export class LogFile {
  #file: Opened | null = null;
  #lastMs = Infinity;
  /** Why a flush failed. */
  #failure: unknown = null;

  constructor(readonly path: string) {}

  /**
   * What is in the log is on disk when this returns. The event loop goes on meanwhile, unless `alone` says that nobody else
   * waits and the disk was quick the last time: to hand a short wait to another thread takes a third of the wait. After one that failed
   * none succeeds until the log was restarted: a system tells of a lost page once, and finds all well the next time.
   */
  async flush(alone = false): Promise<void> {
    if (this.hasFailed) throw this.#failure;
    const file = this.#opened();
    // Without a log everything was moved into the journal, with flushes of its own.
    if (!file) return;
    const began = performance.now();
    try {
      if (alone && this.#lastMs < QUICK_MS) fdatasyncSync(file.fd);
      else await this.#flushBeside(file);
    } catch (error) {
      this.#failure = error;
    }
    // Perhaps another one at the same time.
    if (this.hasFailed) throw this.#failure;
    this.#lastMs = performance.now() - began;
  }

  get hasFailed(): boolean {
    return this.#failure !== null;
  }

  /** What is in it is on disk elsewhere, and what comes is written from its beginning. */
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

  /** The journal was closed or opened again: its log is another file. */
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

/** A descriptor that is closed during a flush may name another file before the flush is done. */
function closeIfIdle({ fd, flushes }: Opened): void {
  if (flushes === 0) closeSync(fd);
}

/** Who holds this lock exports the mail of this ledger to files, as long as it lives, and checkpoints its log. */
export function exportLock(ledger: string): HeldLock | null {
  return holdLock(`${ledger}.keeper`);
}

/** Somebody alive exports the mail of this ledger. */
export function isExported(ledger: string): boolean {
  if (!existsSync(`${ledger}.keeper`)) return false;
  const lock = exportLock(ledger);
  lock?.release();
  return lock === null;
}
