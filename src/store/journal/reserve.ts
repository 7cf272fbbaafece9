import { closeSync, openSync, statSync, unlinkSync, writeSync } from 'node:fs';
import { isDiskFull, isMissing } from '../../core/disk.ts';

/** Enough to claim and settle a few hundred messages, which frees more space. */
const RESERVE_BYTES = 256 * 1024;
/** How many messages of other programs get their rows on a full disk: the reserve must also suffice to claim and settle them. */
export const FEW = 32;
/** The most random bytes that one call returns. */
const PIECE_BYTES = 64 * 1024;

/** A file that keeps disk space for readers: reading frees space, so a full disk must not stop it. It is deleted when a reader needs the space. */
export class Reserve {
  constructor(readonly path: string) {}

  /** Fills the file up to its full size. Throws if the disk is full; the file then keeps the size that it reached. */
  fill(): void {
    const size = this.#size();
    if (size >= RESERVE_BYTES) return;
    const fd = openSync(this.path, 'a', 0o600);
    try {
      for (let left = RESERVE_BYTES - size; left > 0;) left -= writeSync(fd, noise(Math.min(left, PIECE_BYTES)));
    } finally {
      closeSync(fd);
    }
  }

  /** Fills the file as far as the disk allows. */
  fillIfPossible(): void {
    try {
      this.fill();
    } catch {
      // A full disk is expected. Any other error appears again when a caller uses the disk.
    }
  }

  /** Runs `act`. If it fails with an error that `isFull` accepts, deletes the reserve and runs `act` again. */
  orSpend<T>(act: () => T, isFull: (error: unknown) => boolean = isDiskFull): T {
    try {
      return act();
    } catch (error) {
      if (!isFull(error) || !this.#spend()) throw error;
      return act();
    }
  }

  /** True if the reserve is smaller than it should be: the disk is full, or was full at the last fill. */
  get isSpent(): boolean {
    return this.#size() < RESERVE_BYTES;
  }

  #spend(): boolean {
    try {
      unlinkSync(this.path);
      return true;
    } catch (error) {
      if (isMissing(error)) return false;
      throw error;
    }
  }

  #size(): number {
    return statSync(this.path, { throwIfNoEntry: false })?.size ?? 0;
  }
}

/** Random bytes: a file system that compresses would reserve no space for zeros. */
function noise(bytes: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(bytes));
}
