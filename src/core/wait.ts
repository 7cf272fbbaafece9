const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Wakes one waiting loop. Several notifications before its next wait count as one. */
export class Wakeup {
  #isNotified = false;
  #wake = (): void => {};
  #timer: ReturnType<typeof setTimeout> | undefined;
  #at = Infinity;

  notify(): void {
    this.#isNotified = true;
    this.#wake();
  }

  /** Notifies after `ms`. There is one timer, for the earliest requested time. */
  notifyIn(ms: number): void {
    const at = Date.now() + Math.max(ms, 0);
    if (at >= this.#at) return;
    this.#at = at;
    clearTimeout(this.#timer);
    const fire = (): void => {
      this.#at = Infinity;
      this.notify();
    };
    this.#timer = setTimeout(fire, Math.min(Math.max(ms, 0) + 1, LONGEST_TIMER_MS));
  }

  /** Waits for the next notification. Returns at once if one came since the last wait. */
  async next(): Promise<void> {
    if (!this.#isNotified) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    this.#isNotified = false;
  }

  /** Like `next`, but waits at most `ms`, and returns when the signal aborts. */
  async nextWithin(ms: number, signal: AbortSignal): Promise<void> {
    const stop = (): void => this.notify();
    const timer = setTimeout(stop, ms);
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    await this.next();
    signal.removeEventListener('abort', stop);
    clearTimeout(timer);
  }

  /** Ends the timer. Later calls of `notifyIn` do nothing. */
  close(): void {
    clearTimeout(this.#timer);
    this.#at = -Infinity;
  }
}

/** Waits for a promise, but at most `ms`. Null if it took longer. */
export async function withLimit<T>(promise: Promise<T>, ms: number): Promise<T | null> {
  const { promise: late, resolve } = Promise.withResolvers<null>();
  const timer = setTimeout(() => resolve(null), Math.min(ms, LONGEST_TIMER_MS));
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
