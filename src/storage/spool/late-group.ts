import { Refusal } from '../../protocol/refusal.ts';
import { explained } from '../disk.ts';
import type { Acceptance, Entry, Ledger } from '../ledger/ledger.ts';

/** How many entries one transaction takes in at most: others want to write too. */
const GROUP = 512;

/** Fewer than this are not split. */
const HALF = 16;

interface Waiting {
  entry: Entry;
  resolve: (accepted: Acceptance) => void;
  reject: (error: unknown) => void;
}

interface Accepted extends Waiting {
  outcome: Acceptance | Refusal | undefined;
}

/**
 * Accepts what comes at the same time as one act, flushes once, and then answers all of them. While one group is on its way to
 * the disk the next is accepted already.
 */
export class GroupCommit {
  #waiting: Waiting[] = [];
  /** Accepted, and not known to be on disk. */
  #unflushed: Accepted[] = [];
  #isDue = false;
  #flushing: Promise<void> | null = null;
  #pause: Promise<void> | null = null;

  constructor(
    readonly root: string,
    readonly ledger: Ledger,
    /** Told after each commit, before the flush. */
    readonly onCommit: (outcomes: (Acceptance | Refusal)[]) => void,
  ) {}

  async put(entry: Entry): Promise<Acceptance> {
    const { promise, resolve, reject } = Promise.withResolvers<Acceptance>();
    this.#waiting.push({ entry, resolve, reject });
    this.#commitSoon();
    return promise;
  }

  /** Nothing is accepted until this promise is kept. */
  pause(until: Promise<void>): void {
    this.#pause = this.#resumeAfter(until);
  }

  async #resumeAfter(until: Promise<void>): Promise<void> {
    await until;
    this.#pause = null;
    this.#commitSoon();
  }

  /** Everything that was put is answered. */
  async settled(): Promise<void> {
    while (this.#waiting.length > 0 || this.#flushing) {
      await (this.#flushing ?? this.#pause ?? new Promise((resolve) => setImmediate(resolve)));
    }
  }

  /** At the end of this turn of the event loop, so that everything that came in it goes together. */
  #commitSoon(): void {
    if (this.#isDue || this.#pause || this.#waiting.length === 0) return;
    this.#isDue = true;
    setImmediate(() => void this.#commit());
  }

  async #commit(): Promise<void> {
    this.#isDue = false;
    if (this.#pause) return;
    // While the disk works on one half, the other is accepted.
    const half = this.#flushing ? this.#waiting.length : Math.max(HALF, Math.ceil(this.#waiting.length / 2));
    const group = this.#waiting.splice(0, Math.min(half, GROUP));
    try {
      const outcomes = await this.ledger.acceptTogether(group.map(({ entry }) => entry));
      group.forEach((one, at) => this.#unflushed.push({ ...one, outcome: outcomes[at] }));
      this.onCommit(outcomes);
      this.#flushing ??= this.#flush();
    } catch (error) {
      for (const one of group) one.reject(explained(error, this.root));
    }
    this.#commitSoon();
  }

  async #flush(): Promise<void> {
    while (this.#unflushed.length > 0) {
      const group = this.#unflushed;
      this.#unflushed = [];
      try {
        await this.ledger.flush(group.length === 1 && this.#waiting.length === 0);
        for (const one of group) answer(one);
      } catch (error) {
        const outcome = 'it may or may not be stored';
        for (const one of group) one.reject(explained(error, this.root, outcome));
      }
    }
    this.#flushing = null;
  }
}

function answer({ outcome, resolve, reject }: Accepted): void {
  if (outcome instanceof Refusal) reject(outcome);
  else if (outcome) resolve(outcome);
  else reject(new Error('the ledger has no answer for an entry'));
}
