/** The ledger's log is moved after so many pages were added (48 MB), by our guess: a transaction has some, and each copy adds. */
const LOG_PAGES = 24_576;
const PAGES = { transaction: 10, copy: 2.5 };

/** Sees to it that the ledger's log is moved before it is too long, and that nobody commits for the moment which that takes. */
export class LateLog {
  /** How many pages we guess that the log has grown by since we last had it moved. */
  #pages = 0;
  #isMoving = false;
  #isHeld = false;
  #free: Promise<void> = Promise.resolve();
  #letGo: () => void = () => {};

  constructor(
    readonly move: () => void,
    /** Nobody may commit until then. */
    readonly onHold: (until: Promise<void>) => void,
  ) {}

  /** Kept as soon as one may commit. */
  get free(): Promise<void> {
    return this.#free;
  }

  /** A transaction with so many copies was committed. */
  count(copies: number): void {
    this.#pages += PAGES.transaction + PAGES.copy * copies;
    if (!this.#isMoving && this.#pages >= LOG_PAGES) {
      this.#pages = 0;
      this.#isMoving = true;
      this.move();
    }
    // The disk is too slow for all of us: senders wait rather than let the log grow without end.
    if (this.#isMoving && this.#pages >= 2 * LOG_PAGES) this.hold();
  }

  hold(): void {
    if (this.#isHeld) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#isHeld = true;
    this.#free = promise;
    this.#letGo = () => {
      this.#isHeld = false;
      resolve();
    };
    this.onHold(promise);
  }

  moved(): void {
    this.#isMoving = false;
    this.#letGo();
  }
}
