const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Rung any number of times, it is heard once. */
export class Bell {
  #rung = false;
  #hear = (): void => {};
  #timer: ReturnType<typeof setTimeout> | undefined;
  #at = Infinity;

  ring(): void {
    this.#rung = true;
    this.#hear();
  }

  /** Rings after this time. There is one timer, for the earliest of all: who hears it asks for the next. */
  ringIn(ms: number): void {
    const at = Date.now() + Math.max(ms, 0);
    if (at >= this.#at) return;
    this.#at = at;
    clearTimeout(this.#timer);
    const ring = (): void => {
      this.#at = Infinity;
      this.ring();
    };
    this.#timer = setTimeout(ring, Math.min(Math.max(ms, 0) + 1, LONGEST_TIMER_MS));
  }

  /** Waits for the next ring, or for none if there was one since the last time. */
  async next(): Promise<void> {
    if (!this.#rung) {
      await new Promise<void>((resolve) => {
        this.#hear = resolve;
      });
    }
    this.#rung = false;
  }

  /** No timer rings it any more. */
  close(): void {
    clearTimeout(this.#timer);
    this.#at = -Infinity;
  }
}

/** Waits for it, but not longer than this. Null: it took longer. */
export async function withLimit<T>(promise: Promise<T>, ms: number): Promise<T | null> {
  const { promise: late, resolve } = Promise.withResolvers<null>();
  const timer = setTimeout(() => resolve(null), Math.min(ms, LONGEST_TIMER_MS));
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
