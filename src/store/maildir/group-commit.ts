import { Refusal } from '../../core/refusal.ts';
import { explained } from '../../core/disk.ts';
import type { Acceptance, Entry, MailboxJournal } from '../../core/ports/journal.ts';

/** How many entries one group has at most, and how many letters: others want to write too. */
const GROUP = 512;
const GROUP_LETTERS = 4 * 1024 * 1024;
const COPY_LETTERS = 150;

type Outcome = Acceptance | Refusal;

/** One who put something, and waits for an answer. */
interface Sender {
  entry: Entry;
  resolve: (accepted: Acceptance) => void;
  reject: (error: unknown) => void;
  outcome?: Outcome | undefined;
}

/**
 * Accepts everything that comes in one turn of the event loop in one transaction, flushes the log once, and then answers all of them.
 * While one group is on its way to the disk the next is accepted already.
 */
export class GroupCommit {
  #waiting: Sender[] = [];
  /** In the journal, and not known to be on disk. */
  #unflushed: Sender[] = [];
  #isDue = false;
  #flushing: Promise<void> | null = null;

  constructor(
    readonly root: string,
    readonly journal: MailboxJournal,
    /** Told after each commit, before the flush. */
    readonly onCommit: (outcomes: Outcome[]) => void,
  ) {}

  put(entry: Entry): Promise<Acceptance> {
    const { promise, resolve, reject } = Promise.withResolvers<Acceptance>();
    this.#waiting.push({ entry, resolve, reject });
    this.#commitSoon();
    return promise;
  }

  /** Everything that was put is answered. */
  async settled(): Promise<void> {
    while (this.#waiting.length > 0 || this.#isDue || this.#flushing) {
      await (this.#flushing ?? new Promise((resolve) => setImmediate(resolve)));
    }
  }

  /** At the end of this turn of the event loop, so that everything that came in it goes together. */
  #commitSoon(): void {
    if (this.#isDue || this.#waiting.length === 0) return;
    this.#isDue = true;
    setImmediate(() => void this.#commit());
  }

  async #commit(): Promise<void> {
    const group = this.#waiting.splice(0, this.#groupSize());
    try {
      const outcomes = await this.journal.acceptTogether(group.map(({ entry }) => entry));
      group.forEach((sender, at) => this.#unflushed.push(Object.assign(sender, { outcome: outcomes[at] })));
      this.onCommit(outcomes);
      this.#flushing ??= this.#flush();
    } catch (error) {
      for (const { reject } of group) reject(explained(error, this.root));
    }
    // Not before: no group overtakes another.
    this.#isDue = false;
    this.#commitSoon();
  }

  #groupSize(): number {
    let [size, letters] = [0, 0];
    for (const { entry } of this.#waiting) {
      letters += (entry.text?.length ?? 0) + COPY_LETTERS * entry.copies.length;
      if (size > 0 && (size >= GROUP || letters > GROUP_LETTERS)) break;
      size += 1;
    }
    return size;
  }

  async #flush(): Promise<void> {
    while (this.#unflushed.length > 0) {
      const group = this.#unflushed;
      this.#unflushed = [];
      try {
        await this.journal.flush(group.length === 1 && this.#waiting.length === 0);
        for (const sender of group) answer(sender);
      } catch (error) {
        for (const { reject } of group) reject(explained(error, this.root, 'it may or may not be stored'));
      }
    }
    this.#flushing = null;
  }
}

function answer({ outcome, resolve, reject }: Sender): void {
  if (outcome && !(outcome instanceof Refusal)) resolve(outcome);
  else reject(outcome ?? new Error('the ledger has no answer for an entry'));
}
