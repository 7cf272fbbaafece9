const MINUTE_MS = 60_000;
/** More addresses are not kept in mind: the oldest is forgotten. */
const MOST_ADDRESSES = 10_000;
/** Of what an agent may ask, a stranger may fail at this part. */
const FAILING_PART = 100;

/** A bucket of requests that fills again evenly over a minute. */
export class Bucket {
  #level: number;
  #at: number;

  constructor(
    readonly size: number,
    now: number,
  ) {
    this.#level = size;
    this.#at = now;
  }

  /** Takes one. Returns after how many seconds to try again; 0 if there was one. */
  take(now: number): number {
    const perMs = this.size / MINUTE_MS;
    // A clock that was set back fills nothing.
    this.#level = Math.min(this.size, this.#level + Math.max(0, now - this.#at) * perMs);
    this.#at = now;
    if (this.#level >= 1) {
      this.#level -= 1;
      return 0;
    }
    return Math.max(1, Math.ceil((1 - this.#level) / perMs / 1000));
  }
}

/** Buckets of addresses from which somebody fails to say who it is. Who shows a good token is never asked for its address. */
export class FailingAddresses {
  readonly #buckets = new Map<string, Bucket>();

  constructor(readonly perMinute: number) {}

  /** Counts one failure. Returns after how many seconds to try again; 0 if it is not too many. */
  count(address: string, now: number): number {
    let bucket = this.#buckets.get(address);
    if (!bucket) {
      bucket = new Bucket(Math.max(1, Math.floor(this.perMinute / FAILING_PART)), now);
      this.#buckets.set(address, bucket);
      const [oldest] = this.#buckets.size > MOST_ADDRESSES ? this.#buckets.keys() : [];
      if (oldest !== undefined) this.#buckets.delete(oldest);
    }
    return bucket.take(now);
  }
}
