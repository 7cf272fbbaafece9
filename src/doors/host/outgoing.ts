/** What is kept for a reader that does not read. Then it is cut, and comes back for what it did not acknowledge. spec: host#limits */
export const OUTGOING_LIMIT = 16 * 1024 * 1024;

const encoder = new TextEncoder();

/** Frames on their way over something that takes bytes when it likes. `write` says how many it took. */
export class Outgoing {
  #queue: Uint8Array[] = [];
  #size = 0;
  #onEmpty: (() => void) | undefined;

  constructor(
    readonly write: (bytes: Uint8Array) => number,
    readonly limit = OUTGOING_LIMIT,
  ) {}

  /** One frame, one line. False if too much waits already. */
  push(frame: string): boolean {
    if (this.#size > this.limit) return false;
    const bytes = encoder.encode(`${frame}\n`);
    this.#queue.push(bytes);
    this.#size += bytes.length;
    // Otherwise it is known to be full.
    if (this.#queue.length === 1) this.drain();
    return true;
  }

  /** It may take more now. */
  drain(): void {
    for (let first = this.#queue[0]; first; first = this.#queue[0]) {
      const taken = Math.max(0, this.write(first));
      this.#size -= taken;
      if (taken < first.length) {
        this.#queue[0] = first.subarray(taken);
        return;
      }
      this.#queue.shift();
    }
    this.#onEmpty?.();
    this.#onEmpty = undefined;
  }

  /** Calls back once everything is gone. */
  whenEmpty(act: () => void): void {
    if (this.#queue.length === 0) act();
    else this.#onEmpty = act;
  }
}
