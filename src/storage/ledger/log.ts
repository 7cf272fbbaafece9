import { closeSync, existsSync, fdatasync, fdatasyncSync, fstatSync, openSync, writeSync } from 'node:fs';
import { codeOf, isMissing } from '../disk.ts';
import { holdLock } from '../lock-file.ts';
import type { HeldLock } from '../lock-file.ts';

/**
 * A log that is flushed at every commit is laid out ahead: first so far, then twice as far, but never by more than a step, for which senders
 * wait; up to the length that it never passes by much.
 */
const FIRST_BYTES = 256 * 1024;
const STEP_BYTES = 2 * 1024 * 1024;
const LAST_BYTES = 64 * 1024 * 1024;
/**
 * So much of it at a time. In a file that was laid out in ever larger pieces, the twelve writes of a lone commit took 42 to 88 µs, in
 * pieces of this size 34; in a ledger at work the gain is smaller.
 */
const PIECE_BYTES = 64 * 1024;

/** Whether the log has outgrown what was laid out is looked at once in so many transactions: until then a flush only takes longer. */
const LOOK_EVERY = 8;

/** A disk that flushes faster than this may be waited for on the spot. */
const QUICK_MS = 2;

interface Opened {
  fd: number;
  /** How many are under way in other threads. */
  flushes: number;
}

/**
 * The write-ahead log of a ledger, seen from beside SQLite, or the log of its in-tray. Of SQLite's three files only this one may be opened and closed by hand: a closed
 * descriptor of the ledger or of its index would take away the locks that SQLite holds in this process.
 */
export class LogFile {
  #file: Opened | null = null;
  #lastMs = Infinity;
  /** Why a flush failed. */
  #failure: unknown = null;
  #laidOut = 0;
  #unlooked = 0;

  constructor(readonly path: string) {}

  /**
   * What stands in the log is on disk when this returns. The event loop goes on meanwhile, unless `alone` says that nobody else
   * waits and the disk was quick the last time: to hand a short wait to another thread takes a third of the wait. After one that failed
   * none succeeds until the log has begun anew: a system tells of a lost page once, and finds all well the next time.
   */
  async flush(alone = false): Promise<void> {
    if (this.hasFailed) throw this.#failure;
    const file = this.#opened();
    // Without a log everything was moved into the ledger, with flushes of its own.
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

  /** What stands in it is on disk elsewhere, and what comes is written from its beginning. */
  hasBegunAnew(): void {
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

  /**
   * Lays the log out ahead of what is written, with zeros, which SQLite takes for the end of it. A flush of a file that does not
   * grow need not note its new length anywhere: it takes 0.6 of the time. Only for who has the write lock.
   */
  layOut(): void {
    this.#unlooked += 1;
    if (this.#laidOut > 0 && this.#unlooked < LOOK_EVERY) return;
    const file = this.#opened();
    if (!file) return;
    this.#unlooked = 0;
    const { size } = fstatSync(file.fd);
    if (size === this.#laidOut || size >= LAST_BYTES) return;
    const length = Math.min(Math.max(2 * size, FIRST_BYTES), size + STEP_BYTES, LAST_BYTES);
    const zeros = new Uint8Array(PIECE_BYTES);
    try {
      for (let at = size; at < length; at += PIECE_BYTES) {
        writeSync(file.fd, zeros, 0, Math.min(PIECE_BYTES, length - at), at);
      }
    } catch (error) {
      // What is missing on a full disk is told by the commit that needs it.
      if (codeOf(error) !== 'ENOSPC' && codeOf(error) !== 'EDQUOT') throw error;
    }
    this.#laidOut = fstatSync(file.fd).size;
  }

  /** The ledger was closed or opened anew: its log is another file. */
  forget(): void {
    const file = this.#file;
    this.#file = null;
    this.#laidOut = 0;
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
