const MINUTE_MS = 60_000;
/** The most buckets in memory. Beyond that the oldest is dropped. */
const MOST_BUCKETS = 16_384;

/** A token bucket of requests: it fills again evenly over a minute. */
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

  /** Takes one. Returns 0, or the seconds after which to try again. */
  take(now: number): number {
    const perMs = this.size / MINUTE_MS;
    // A clock that was set back adds nothing.
    this.#level = Math.min(this.size, this.#level + Math.max(0, now - this.#at) * perMs);
    this.#at = now;
    if (this.#level >= 1) {
      this.#level -= 1;
      return 0;
    }
    return Math.max(1, Math.ceil((1 - this.#level) / perMs / 1000));
  }
}

/** One bucket per key: a token or, before a token was checked, an address. */
export class Buckets {
  readonly #buckets = new Map<string, Bucket>();
  readonly #size: number;

  constructor(perMinute: number) {
    this.#size = Math.max(1, Math.floor(perMinute));
  }

  /** Counts one. Returns 0, or the seconds after which to try again. */
  count(key: string, now: number): number {
    const bucket = this.#buckets.get(key) ?? new Bucket(this.#size, now);
    this.#buckets.set(key, bucket);
    const [oldest] = this.#buckets.size > MOST_BUCKETS ? this.#buckets.keys() : [];
    if (oldest !== undefined) this.#buckets.delete(oldest);
    return bucket.take(now);
  }
}

/** The key for an address. An IPv6 site has any number of addresses with the same first 64 bits, so those are its key. */
export function siteOf(address: string): string {
  const [, mapped] = /^::ffff:(\d[\d.]+)$/i.exec(address) ?? [];
  if (mapped !== undefined) return mapped;
  if (!address.includes(':')) return address;
  const [before = '', after] = address.toLowerCase().replace(/%.*$/, '').split('::');
  const groups = before === '' ? [] : before.split(':');
  // Two colons mean as many zero groups as are missing.
  const missing = after === undefined ? 0 : 8 - groups.length - (after === '' ? 0 : after.split(':').length);
  const all = [...groups, ...Array.from({ length: Math.max(0, missing) }, () => '0'), ...(after?.split(':') ?? [])];
  const first = all.slice(0, 4).map((group) => group.replace(/^0+(?=.)/, ''));
  return `${first.join(':')}::/64`;
}
