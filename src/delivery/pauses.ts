export interface PauseLimits {
  /** The first pause after a failed attempt. Each further failure in a row doubles it, up to `longestRetryMs`. */
  retryMs: number;
  longestRetryMs: number;
}

/**
 * Sessions that get no mail for a while. When the time of a pause is over, the pause stays known until something succeeds or `forget` drops it,
 * so that the next attempt is made with one message only.
 */
export class Pauses {
  readonly #all = new Map<string, { until: number; ms: number }>();

  constructor(
    readonly limits: PauseLimits,
    readonly now: () => number,
    /** Asks for a look after this time, ms. */
    readonly lookIn: (ms: number) => void,
  ) {}

  has(session: string): boolean {
    return this.#all.has(session);
  }

  isPaused(session: string): boolean {
    const { until, ms } = this.#all.get(session) ?? { until: 0, ms: 0 };
    const left = until - this.now();
    // A clock that was set back must not make the pause longer.
    return left > 0 && left <= ms;
  }

  /** An attempt with this session failed: pauses it, each time in a row for longer. */
  pause(session: string): void {
    const { retryMs, longestRetryMs } = this.limits;
    const ms = Math.min((this.#all.get(session)?.ms ?? 0) * 2 || retryMs, longestRetryMs);
    this.#all.set(session, { until: this.now() + ms, ms });
    this.lookIn(ms);
  }

  /** The model of this session does not answer: pauses it for the longest time. */
  hold(session: string): void {
    const ms = this.limits.longestRetryMs;
    this.#all.set(session, { until: this.now() + ms, ms });
  }

  end(session: string): void {
    this.#all.delete(session);
  }

  /** Forgets the sessions that do not run and whose pause is over. */
  forget(running: ReadonlySet<string>): void {
    for (const session of this.#all.keys()) if (!running.has(session) && !this.isPaused(session)) this.end(session);
  }
}
