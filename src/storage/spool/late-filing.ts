import type { HeldLock } from '../lock-file.ts';
import type { LateCopies } from '../ledger/late.ts';
import type { BackRoom } from './late-back-room.ts';
import { filerLock } from './late-files.ts';

/** So many copies may wait for their files; then senders wait too. They stand in the ledger, not in memory. */
export const MOST_UNFILED = 200_000;
/** If another process writes the files in this home, we ask so often whether it still does. */
const LOCK_MS = 1000;

/** Keeps count of the copies without a file, and sees to it that somebody writes them. */
export class LateFiling {
  readonly #timer: ReturnType<typeof setInterval>;
  #lock: HeldLock | null = null;
  /** As far as we know. */
  #unfiled = 0;
  #waiting: (() => void)[] = [];
  #finishing: (() => void)[] = [];

  constructor(
    readonly root: string,
    readonly ledger: LateCopies,
    readonly room: BackRoom,
    readonly most: number,
  ) {
    this.#takeLock();
    this.#timer = setInterval(() => void this.#lookAgain(), LOCK_MS);
    this.#timer.unref();
  }

  /** We write the files of this home, and nobody else does. */
  get isOurs(): boolean {
    return this.#lock !== null;
  }

  /** Waits until one more may be accepted. */
  async place(): Promise<void> {
    while (this.#unfiled >= this.most) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  added(copies: number): void {
    this.#unfiled += copies;
  }

  filed(copies: number): void {
    this.#unfiled = Math.max(0, this.#unfiled - copies);
    this.#letIn();
  }

  /** The back room found nothing more that it can write. */
  idle(): void {
    this.#unfiled = 0;
    this.#letIn();
    for (const done of this.#finishing.splice(0)) done();
  }

  /** Everything accepted has its file, or cannot have one now. */
  async finish(): Promise<void> {
    while ((await this.ledger.unfiledCount(1)) > 0) {
      if (!this.#lock) await new Promise((resolve) => setTimeout(resolve, 20));
      else if (!(await this.#fileNow())) return;
    }
  }

  /** Where another process writes the files, they are left to it. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    if (this.#lock) await this.finish();
    await this.room.close();
    this.#lock?.release();
  }

  /** False if nothing could be done. */
  async #fileNow(): Promise<boolean> {
    const before = await this.ledger.unfiledCount(this.most);
    await new Promise<void>((resolve) => {
      this.#finishing.push(resolve);
      this.room.file(true);
    });
    return (await this.ledger.unfiledCount(this.most)) !== before;
  }

  async #lookAgain(): Promise<void> {
    if (this.#lock) return;
    this.#takeLock();
    this.#unfiled = await this.ledger.unfiledCount(this.most);
    this.#letIn();
  }

  #takeLock(): void {
    this.#lock = filerLock(this.root);
    if (this.#lock) this.room.mayFile(true);
  }

  #letIn(): void {
    if (this.#unfiled < this.most) for (const again of this.#waiting.splice(0)) again();
  }
}
