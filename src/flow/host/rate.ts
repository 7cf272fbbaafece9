import { Refusal } from '../../protocol/refusal.ts';
import type { HostDeps } from './deps.ts';

/** So many per second, so many at once, and so many that wait for their turn. What is more is refused: nothing is dropped. */
export class Rate {
  #left: number;
  #at: number;
  #waiting = 0;

  constructor(
    readonly deps: Pick<HostDeps, 'now' | 'after'>,
    readonly limit: { perSecond: number; atOnce: number; waiting: number },
  ) {
    this.#left = limit.atOnce;
    this.#at = deps.now();
  }

  /** Comes back when it is its turn; throws if too many wait already. */
  async turn(what: string): Promise<void> {
    this.#refill();
    const waitMs = this.#left >= 1 ? 0 : Math.ceil(((1 - this.#left) * 1000) / this.limit.perSecond);
    if (waitMs > 0 && this.#waiting >= this.limit.waiting) {
      throw new Refusal(
        'busy',
        `too many ${what} at once; try again in ${Math.ceil(waitMs / 1000)} s, with the same key`,
      );
    }
    // Taken now, also where it has to be waited for: who comes later waits longer.
    this.#left -= 1;
    if (waitMs === 0) return;
    this.#waiting += 1;
    await new Promise<void>((resolve) => this.deps.after(waitMs, resolve));
    this.#waiting -= 1;
  }

  #refill(): void {
    const now = this.deps.now();
    this.#left = Math.min(this.limit.atOnce, this.#left + (Math.max(0, now - this.#at) / 1000) * this.limit.perSecond);
    this.#at = now;
  }
}
