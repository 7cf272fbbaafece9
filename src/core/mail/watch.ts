import { byTime } from '../message.ts';
import type { MessageId } from '../names.ts';
import type { Evidence } from '../receipt.ts';
import type { Claim, MailboxReader, WaitingMessage } from '../ports/mailboxes.ts';
import { Wakeup } from '../wait.ts';
import { LEASE_MS, isSelected } from './deliver.ts';
import type { Delivered, Selection } from './deliver.ts';
import { takenBy } from './shared.ts';
import type { ReadMailbox } from './shared.ts';
import { receiptsOf } from './workspace.ts';
import type { Who } from './workspace.ts';

/** How a job ended. A failed job is tried again after a pause. An interrupted job may be tried again at once. */
export type Ended = { done: boolean; evidence: Evidence; interrupted?: boolean };

/** The result of `work`. `againMs`: the pause before the next try; null if the caller decides. */
export type Worked = { done: boolean; againMs: number | null };

const FIRST_PAUSE_MS = 5000;
const LONGEST_PAUSE_MS = 5 * 60 * 1000;

/**
 * Step 4 of 5, for readers that need time. Takes one message and holds it while `job` works on it. The lease is renewed meanwhile, so
 * nobody else gets the message. If this process dies, the message waits again at once.
 *
 * waiting → held → settled, if the job is done; → waiting, if the job failed, was interrupted or threw. After a failure `work` pauses for
 * 5 s, 10 s, … 5 min. Failures are counted in the journal, so `work` keeps the pause in every process; the copy itself waits, and other
 * readers can take it. `lost` tells the job that the lease has ended all the same (the machine slept): another reader may have the message.
 */
export async function work(
  { who, taker }: ReadMailbox,
  id: MessageId,
  job: (copy: Delivered, lost: AbortSignal) => Promise<Ended>,
  lease = { ms: LEASE_MS, renewMs: LEASE_MS / 3 },
): Promise<Worked> {
  const { mailboxes } = who.home;
  const left = pauseLeft(await failures(who, id));
  if (left > 0) return { done: false, againMs: left };
  const claim = await mailboxes.claim(who.name, [id], { ms: lease.ms });
  const [copy] = claim.copies;
  if (!copy) return { done: false, againMs: null };
  const renewal = new LeaseRenewal(mailboxes, claim, lease);
  let ended: Ended;
  try {
    ended = await job(copy, renewal.lost);
  } catch (error) {
    await mailboxes.release(claim, [id], { because: 'it could not be worked on' });
    throw error;
  } finally {
    await renewal.close();
  }
  const { done, evidence, interrupted } = ended;
  if (done) {
    const settlement = { disposition: 'acknowledged', by: evidence, ...takenBy(taker) } as const;
    return { done: await mailboxes.settle(claim, [id], settlement, 'shown'), againMs: null };
  }
  const before = (await failures(who, id)).length;
  await mailboxes.release(claim, [id], interrupted ? evidence : { ...evidence, failure: before + 1 });
  return { done: false, againMs: interrupted ? null : pauseAfter(before + 1) };
}

/** Times of failed work on this copy, oldest first. */
async function failures(who: Who, id: MessageId): Promise<number[]> {
  return (await receiptsOf(who, id))
    .filter(({ step, evidence }) => step === 'released' && 'failure' in evidence)
    .map(({ at }) => Date.parse(at));
}

function pauseLeft(failed: number[]): number {
  const last = failed.at(-1);
  if (last === undefined) return 0;
  const pause = pauseAfter(failed.length);
  // A clock that was set back must not make the pause longer.
  return Math.min(last + pause - Date.now(), pause);
}

function pauseAfter(failures: number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** (failures - 1), LONGEST_PAUSE_MS);
}

/** Renews a lease until it is closed. */
class LeaseRenewal {
  readonly #lost = new AbortController();
  readonly #timer: ReturnType<typeof setInterval>;
  #renewing: Promise<void> = Promise.resolve();

  constructor(
    readonly inbox: Pick<MailboxReader, 'renew'>,
    readonly claim: Claim,
    readonly lease: { ms: number; renewMs: number },
  ) {
    this.#timer = setInterval(() => {
      this.#renewing = this.#renewing.then(() => this.#renew());
    }, lease.renewMs);
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#renewing;
  }

  async #renew(): Promise<void> {
    // If the journal is busy, try again before the lease ends.
    const held = await this.inbox.renew(this.claim, { ms: this.lease.ms }).catch(() => true);
    if (!held) this.#lost.abort();
  }
}

/** How often a watcher looks without an event: a copy can wait again because its lease ended or its reader died. */
const LOOK_MS = 5000;
/** How often skipped copies are checked again: a copy can be raised or repaired. */
const FORGET_MS = 60_000;

export interface Watching {
  selection: Selection;
  /** Take nothing. Each message is still passed on only once. */
  peek: boolean;
  /** Handles one message. Returns after how many ms to handle the same message again, or null. */
  handle: (waiting: WaitingMessage) => Promise<number | null>;
  stop: AbortSignal;
}

/**
 * Waits for mail and passes each message on, oldest first, one at a time, until it is stopped. If `handle` throws, the watch ends with
 * that error.
 */
export async function watch(who: Who, watching: Watching): Promise<void> {
  const watcher = new Watcher(who, watching);
  try {
    await watcher.run();
  } finally {
    watcher.close();
  }
}

class Watcher {
  readonly #wakeup = new Wakeup();
  readonly #timers: Timer[];
  /** Messages that were passed on in peek mode. They are not passed on again in this process. */
  readonly #shown = new Set<MessageId>();
  /** Messages that are not selected. */
  #skipped = new Set<MessageId>();
  #healNow = false;
  readonly #arrivals: { close(): void };

  constructor(
    readonly who: Who,
    readonly watching: Watching,
  ) {
    this.#arrivals = who.home.mailboxes.watch(who.name, () => this.#wakeup.notify());
    this.#timers = [
      setInterval(() => this.#healAndLook(), LOOK_MS),
      setInterval(() => this.#skipped.clear(), FORGET_MS),
    ];
    watching.stop.addEventListener('abort', () => this.#wakeup.notify(), { once: true });
  }

  async run(): Promise<void> {
    while (!this.watching.stop.aborted) {
      if (this.#healNow) await this.who.home.mailboxes.heal();
      this.#healNow = false;
      await this.#look();
      if (!this.watching.stop.aborted) await this.#wakeup.next();
    }
  }

  close(): void {
    this.#arrivals.close();
    for (const timer of this.#timers) clearTimeout(timer);
    this.#wakeup.close();
  }

  #healAndLook(): void {
    this.#healNow = true;
    this.#wakeup.notify();
  }

  async #look(): Promise<void> {
    for (const { id } of await this.#unhandled()) {
      // Local backends never yield to the event loop. Without this pause, signals would be handled only after the last message.
      await new Promise<void>((resolve) => setImmediate(resolve));
      if (this.watching.stop.aborted) return;
      const one = await this.who.home.mailboxes.read(this.who.name, id);
      if (!one) continue;
      if (this.watching.peek) this.#shown.add(id);
      const againMs = await this.watching.handle(one);
      if (againMs !== null) this.#wakeup.notifyIn(againMs);
    }
  }

  /**
   * The selected messages that were not passed on before, oldest first. If nothing new arrived, this costs two listings, however much waits.
   * Keeps ids and times only, because there may be very many messages.
   */
  async #unhandled(): Promise<{ id: MessageId; ts: string }[]> {
    const { name, home } = this.who;
    const ids = await home.mailboxes.ids(name);
    this.#skipped = this.#skipped.intersection(new Set(ids));
    const unseen = ids.filter((id) => !this.#skipped.has(id) && !this.#shown.has(id));
    if (unseen.length === 0) return [];
    await home.mailboxes.adopt(name);
    const selected: { id: MessageId; ts: string }[] = [];
    for (const id of unseen) {
      const one = await home.mailboxes.read(name, id);
      if (one && isSelected(one, this.watching.selection)) selected.push({ id, ts: one.message.ts });
      else if (one) this.#skipped.add(id);
    }
    return selected.sort(byTime);
  }
}

type Timer = ReturnType<typeof setTimeout>;
