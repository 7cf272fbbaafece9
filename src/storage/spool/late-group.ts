import { Refusal } from '../../protocol/refusal.ts';
import { explained } from '../disk.ts';
import type { Acceptance, Entry, Ledger } from '../ledger/ledger.ts';
import type { InTray } from './in-tray.ts';
import type { Laid, Outcome, Sender } from './in-tray-enter.ts';

/** How many entries one group has at most, and how many letters: others want to write too. */
const GROUP = 512;
const GROUP_LETTERS = 4 * 1024 * 1024;
const COPY_LETTERS = 150;

/** Fewer than this are not split. */
const HALF = 16;

/** So many within a moment of so many ms are a rush, if nobody has asked for anything for so long. It lasts for the next moment. */
export interface Rush {
  atOnce: number;
  withinMs: number;
  unreadMs: number;
}
export const RUSH: Rush = { atOnce: 8, withinMs: 25, unreadMs: 250 };

interface Accepted extends Sender {
  outcome: Outcome;
}

/**
 * Accepts what comes at the same time as one act, flushes once, and then answers all of them. While one group is on its way to
 * the disk the next is accepted already. In a rush, what nobody waits for goes to the in-tray, and so does everything until all of that
 * is entered: nobody overtakes. Otherwise it goes straight into the ledger, and so it does where somebody reads: who reads would wait for
 * what lies in the tray again and again.
 */
export class GroupCommit {
  #waiting: Sender[] = [];
  /** In the ledger or in the tray, and not known to be on disk. */
  #unflushed: Accepted[] = [];
  #unlaid: Laid[] = [];
  #isDue = false;
  /** When this moment began, and how many came in it and in the one before. */
  #moment = { at: -Infinity, came: 0, before: 0 };
  #flushing: Promise<void> | null = null;
  #pause: Promise<void> | null = null;

  constructor(
    readonly root: string,
    readonly ledger: Ledger,
    readonly tray: InTray,
    readonly on: {
      /** Told after each commit, before the flush. */
      commit: (outcomes: (Acceptance | Refusal)[]) => void;
      /** Whether somebody listens for this one. */
      isAwaited: (entry: Entry) => boolean;
    },
    readonly rush: Rush,
  ) {}

  put(entry: Entry): Promise<Acceptance> {
    const { promise, resolve, reject } = Promise.withResolvers<Acceptance>();
    this.#waiting.push({ entry, resolve, reject });
    this.#count();
    this.#commitSoon();
    return promise;
  }

  #count(): void {
    const { withinMs } = this.rush;
    const now = performance.now();
    const passed = now - this.#moment.at;
    if (passed >= withinMs) {
      this.#moment = { at: now, came: 0, before: passed < 2 * withinMs ? this.#moment.came : 0 };
    }
    this.#moment.came += 1;
  }

  /** Nothing is committed until this promise is kept. */
  pause(until: Promise<void>): void {
    this.#pause = this.#resumeAfter(until);
    this.tray.pause(until);
  }

  async #resumeAfter(until: Promise<void>): Promise<void> {
    await until;
    this.#pause = null;
    this.#commitSoon();
  }

  /** Everything that was put is answered. */
  async settled(): Promise<void> {
    while (this.#waiting.length > 0 || this.#isDue || this.#flushing) {
      await (this.#flushing ?? this.#pause ?? new Promise((resolve) => setImmediate(resolve)));
    }
  }

  /** At the end of this turn of the event loop, so that everything that came in it goes together. */
  #commitSoon(): void {
    if (this.#isDue || this.#waiting.length === 0 || (this.#pause && !this.tray.isOpen)) return;
    this.#isDue = true;
    setImmediate(() => void this.#commit());
  }

  async #commit(): Promise<void> {
    await this.#roomInTray();
    const goesToTray = this.#goesToTray();
    const group = this.#pause && !goesToTray ? [] : this.#waiting.splice(0, this.#groupSize(goesToTray));
    try {
      if (group.length > 0) await this.#write(group, goesToTray);
    } catch (error) {
      for (const one of group) one.reject(explained(error, this.root));
    }
    // Not before: no group overtakes another.
    this.#isDue = false;
    if (group.length > 0) this.#commitSoon();
  }

  async #write(group: Sender[], goesToTray: boolean): Promise<void> {
    if (goesToTray) this.#unlaid.push(await this.tray.write(group));
    else await this.#accept(group);
    this.#flushing ??= this.#flush();
  }

  #goesToTray(): boolean {
    if (!this.tray.isOpen) return false;
    if (!this.tray.isEmpty || this.#pause) return true;
    const { atOnce, unreadMs } = this.rush;
    const { came, before } = this.#moment;
    if (Math.max(came, before) < atOnce || this.tray.unreadMs < unreadMs) return false;
    return !this.#waiting.some(({ entry }) => this.#isWanted(entry));
  }

  /** While the disk works on one half, the other is accepted; to write it to the tray takes so little that there is nothing to be gained. */
  #groupSize(goesToTray: boolean): number {
    const isWhole = goesToTray || this.#flushing !== null;
    const half = isWhole ? this.#waiting.length : Math.max(HALF, Math.ceil(this.#waiting.length / 2));
    let [size, letters] = [0, 0];
    for (const { entry } of this.#waiting) {
      letters += (entry.text?.length ?? 0) + COPY_LETTERS * entry.copies.length;
      if (size > 0 && (size >= Math.min(half, GROUP) || letters > GROUP_LETTERS)) break;
      size += 1;
    }
    return size;
  }

  /** When more lies there than should, or what a dead relay left, senders wait. */
  async #roomInTray(): Promise<void> {
    if (!this.tray.isFull) return;
    try {
      await this.#flushing;
      await this.tray.empty();
    } catch (error) {
      for (const one of this.#waiting.splice(0)) one.reject(explained(error, this.root));
    }
  }

  async #accept(group: Sender[]): Promise<void> {
    const outcomes = await this.ledger.acceptTogether(group.map(({ entry }) => entry));
    group.forEach((one, at) => this.#unflushed.push({ ...one, outcome: outcomes[at] }));
    this.on.commit(outcomes);
  }

  async #flush(): Promise<void> {
    while (this.#unflushed.length + this.#unlaid.length > 0) {
      const [accepted, unlaid] = [this.#unflushed, this.#unlaid];
      this.#unflushed = [];
      this.#unlaid = [];
      if (accepted.length > 0) await this.#flushAccepted(accepted);
      if (unlaid.length > 0) await this.#flushUnlaid(unlaid);
    }
    this.#flushing = null;
  }

  async #flushAccepted(group: Accepted[]): Promise<void> {
    try {
      await this.ledger.flush(group.length === 1 && this.#waiting.length === 0);
      for (const one of group) answer(one, one.outcome);
    } catch (error) {
      this.#doubt(group, error);
    }
  }

  async #flushUnlaid(unlaid: Laid[]): Promise<void> {
    try {
      await this.tray.flush(unlaid.length === 1 && unlaid[0]?.group.length === 1 && this.#waiting.length === 0);
      for (const { group } of unlaid)
        for (const one of group) if (!asksLedger(one.entry)) one.resolve(isNew(one.entry));
    } catch (error) {
      for (const { group } of unlaid) this.#doubt(group, error);
    }
    for (const laid of unlaid)
      this.tray.lay(
        laid,
        laid.group.some(({ entry }) => this.#isWanted(entry)),
      );
  }

  #isWanted(entry: Entry): boolean {
    return asksLedger(entry) || this.on.isAwaited(entry);
  }

  #doubt(group: Sender[], error: unknown): void {
    const outcome = 'it may or may not be stored';
    for (const one of group) one.reject(explained(error, this.root, outcome));
  }
}

/** Whether it is new can only be said by the ledger. */
function asksLedger({ key, fresh }: Entry): boolean {
  return key !== undefined || !fresh;
}

function isNew({ message, copies }: Entry): Acceptance {
  return { message, copies, first: true };
}

export function answer({ resolve, reject }: Sender, outcome: Outcome): void {
  if (outcome instanceof Refusal) reject(outcome);
  else if (outcome) resolve(outcome);
  else reject(new Error('the ledger has no answer for an entry'));
}

/** Of what comes from the tray everybody was told already. */
export function withoutNumber(outcome: Outcome): Outcome {
  if (!outcome || outcome instanceof Refusal) return outcome;
  const { seq: _seq, ...rest } = outcome;
  return rest;
}
