import { closeSync, openSync, statSync, unlinkSync, writeSync } from 'node:fs';
import { isDiskFull, isMissing } from '../../core/disk.ts';

/** Enough to claim and settle a few hundred messages, which frees more. */
const RESERVE_BYTES = 256 * 1024;
/** How many messages of other programs get their rows at once in its room: they must be claimed and settled there too. */
export const FEW = 32;
/** What one call for random bytes gives. */
const PIECE_BYTES = 64 * 1024;

/** Room on the disk that is kept for readers: reading frees space, so a full disk must not stop it. The file is deleted when a reader needs it. */
export class Reserve {
  constructor(readonly path: string) {}

  /** Makes it whole again. Throws if there is no room; what there was is kept for readers. */
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

  /** Makes it as large as the disk allows. */
  fillIfPossible(): void {
    try {
      this.fill();
    } catch {
      // On a full disk there is nothing to keep; any other trouble is told by who needs the disk.
    }
  }

  /** Runs `act`; if the disk is full, once more in the room of the reserve. `isFull` tells which errors may be tried again. */
  orSpend<T>(act: () => T, isFull: (error: unknown) => boolean = isDiskFull): T {
    try {
      return act();
    } catch (error) {
      if (!isFull(error) || !this.#spend()) throw error;
      return act();
    }
  }

  /** It is not whole: the disk is full, or was when somebody last looked. */
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

/** A disk that packs its files would keep no room for zeros. */
function noise(bytes: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(bytes));
}
