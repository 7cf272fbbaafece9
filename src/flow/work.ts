import type { MessageId } from '../protocol/names.ts';
import type { Evidence } from '../protocol/receipt.ts';
import type { Claim, Inbox } from '../storage/spool/spool.ts';
import { LEASE_MS } from './deliver.ts';
import type { Delivered } from './deliver.ts';
import type { Who } from './workspace.ts';

/** How the work on a message ended. Unfinished work is tried again: after a while, or at once if it was only interrupted. */
export type Ended = { done: boolean; evidence: Evidence; interrupted?: boolean };

/** `againMs`: how long it should be left alone before the next try; null if that is not for us to say. */
export type Worked = { done: boolean; againMs: number | null };

const FIRST_PAUSE_MS = 5000;
const LONGEST_PAUSE_MS = 5 * 60 * 1000;

/**
 * Step 4 of 5, for readers that need time. Takes one message, and holds it while `job` works on it: the lease is prolonged all
 * the while, so nobody else gets it, and if we die it waits again at once.
 *
 * waiting → held → settled, if the job is done; → waiting, if it failed, was interrupted or threw. After a failure `work` lets
 * it wait for 5 s, 10 s, … 5 min. Failures are counted in the ledger, so every process keeps the pause, and the copy itself
 * stands where everybody can see and take it. `lost` tells the job that the lease ran out in spite of all (the machine slept):
 * somebody else may have the message by now.
 */
export async function work(
  who: Who,
  id: MessageId,
  job: (copy: Delivered, lost: AbortSignal) => Promise<Ended>,
  lease = { ms: LEASE_MS, renewMs: LEASE_MS / 3 },
): Promise<Worked> {
  const { spool } = who.home;
  const left = pauseLeft(await failures(who, id));
  if (left > 0) return { done: false, againMs: left };
  const claim = await spool.claim(who.name, [id], { ms: lease.ms });
  const [copy] = claim.copies;
  if (!copy) return { done: false, againMs: null };
  const keeper = new LeaseKeeper(spool, claim, lease);
  let ended: Ended;
  try {
    ended = await job(copy, keeper.lost);
  } catch (error) {
    await spool.release(claim, [id], { because: 'it could not be worked on' });
    throw error;
  } finally {
    await keeper.close();
  }
  const { done, evidence, interrupted } = ended;
  if (done) {
    const settlement = { disposition: 'acknowledged', by: evidence } as const;
    return { done: await spool.settle(claim, [id], settlement, 'shown'), againMs: null };
  }
  const before = (await failures(who, id)).length;
  await spool.release(claim, [id], interrupted ? evidence : { ...evidence, failure: before + 1 });
  return { done: false, againMs: interrupted ? null : pauseAfter(before + 1) };
}

/** When work on this copy failed, oldest first. */
async function failures(who: Who, id: MessageId): Promise<number[]> {
  const trace = await who.home.ledger.trace(id);
  const receipts = trace?.copies.find((copy) => copy.mailbox === who.name)?.receipts ?? [];
  return receipts
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

/** Prolongs a lease until it is closed. */
class LeaseKeeper {
  readonly #lost = new AbortController();
  readonly #timer: ReturnType<typeof setInterval>;
  #renewing: Promise<void> = Promise.resolve();

  constructor(
    readonly inbox: Pick<Inbox, 'renew'>,
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
    // A ledger that is busy now is asked again before the lease runs out.
    const held = await this.inbox.renew(this.claim, { ms: this.lease.ms }).catch(() => true);
    if (!held) this.#lost.abort();
  }
}
