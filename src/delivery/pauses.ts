export interface PauseLimits {
  /** The first pause after a session could not be given its mail; each time in a row twice as long, up to the last. */
  retryMs: number;
  longestRetryMs: number;
}

/** Sessions that get no mail for a while. One whose pause is over has it until something succeeds: then one message is a try. */
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
    // A clock that was set back does not make it longer.
    return left > 0 && left <= ms;
  }

  /** It could not be given its mail. */
  pause(session: string): void {
    const { retryMs, longestRetryMs } = this.limits;
    const ms = Math.min((this.#all.get(session)?.ms ?? 0) * 2 || retryMs, longestRetryMs);
    this.#all.set(session, { until: this.now() + ms, ms });
    this.lookIn(ms);
  }

  /** Its model does not answer. */
  hold(session: string): void {
    const ms = this.limits.longestRetryMs;
    this.#all.set(session, { until: this.now() + ms, ms });
  }

  end(session: string): void {
    this.#all.delete(session);
  }

  /** Forgets the pauses that are over, of sessions that do not run. */
  forget(running: ReadonlySet<string>): void {
    for (const session of this.#all.keys()) if (!running.has(session) && !this.isPaused(session)) this.end(session);
  }
}
