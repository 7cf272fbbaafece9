import { Refusal } from '../../core/refusal.ts';
import { explained } from '../../core/disk.ts';
import type { Acceptance, Entry, MailboxJournal } from '../../core/ports/journal.ts';

/** The most entries and characters in one group: other processes must get their turn to write. */
const GROUP_ENTRIES = 512;
const GROUP_CHARACTERS = 4 * 1024 * 1024;
/** What the row of one copy counts. */
const COPY_CHARACTERS = 150;

type Outcome = Acceptance | Refusal;

/** A caller of `put` that waits for its answer. */
interface Sender {
  entry: Entry;
  resolve: (accepted: Acceptance) => void;
  reject: (error: unknown) => void;
  outcome?: Outcome | undefined;
}

/**
 * Accepts all entries of one turn of the event loop in one transaction, flushes the log once, and then answers all their senders.
 * While one group is flushed, the next is accepted already.
 */
export class GroupCommit {
  #waiting: Sender[] = [];
  /** Committed to the journal, but not flushed yet. */
  #unflushed: Sender[] = [];
  #isDue = false;
  #flushing: Promise<void> | null = null;

  constructor(
    readonly root: string,
    readonly journal: MailboxJournal,
    /** Called after each commit, before the flush. */
    readonly onCommit: (outcomes: Outcome[]) => void,
  ) {}

  put(entry: Entry): Promise<Acceptance> {
    const { promise, resolve, reject } = Promise.withResolvers<Acceptance>();
    this.#waiting.push({ entry, resolve, reject });
    this.#commitSoon();
    return promise;
  }

  /** Returns when every `put` is answered. */
  async settled(): Promise<void> {
    while (this.#waiting.length > 0 || this.#isDue || this.#flushing) {
      await (this.#flushing ?? new Promise((resolve) => setImmediate(resolve)));
    }
  }

  /** Schedules a commit for the end of this turn of the event loop, so that all its entries share one transaction. */
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
    // Only now may the next commit begin: no group overtakes another.
    this.#isDue = false;
    this.#commitSoon();
  }

  #groupSize(): number {
    let [size, characters] = [0, 0];
    for (const { entry } of this.#waiting) {
      characters += (entry.text?.length ?? 0) + COPY_CHARACTERS * entry.copies.length;
      if (size > 0 && (size >= GROUP_ENTRIES || characters > GROUP_CHARACTERS)) break;
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
  else reject(outcome ?? new Error('the journal returned no outcome for an entry'));
}
