import { receipt } from '../receipt.ts';
import { byTime } from '../message.ts';
import { receiptsOf } from './workspace.ts';
import type { Who } from './workspace.ts';
import type { Attempt, Parcel, Way, WayName } from '../ports/way-in.ts';
import type { Message } from '../message.ts';
import type { MessageId } from '../names.ts';
import type { Evidence, Receipt } from '../receipt.ts';
import type { Claim } from '../ports/mailboxes.ts';
import { LEASE_MS } from './deliver.ts';
import type { Delivered } from './deliver.ts';

/** The first pause before the same way tries again. It doubles with each failure, up to the longest. */
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 300_000;

/** A claimed copy that goes to a client. `redelivered`: the model may have seen it before. */
export type OutgoingCopy = Delivered & { redelivered: boolean };

export interface AttemptOptions {
  way: Way;
  /** Renders the claimed copies for the model, and may record them first. If it throws, everything waits again. */
  wrap: (outgoing: readonly OutgoingCopy[]) => readonly Parcel[];
  /** More evidence to record when a copy ends, beside the client's own. */
  by?: Evidence;
  /** How often this way may hand over one copy without proof that it arrived. The default is once. */
  most?: number;
  now: () => number;
  signal: AbortSignal;
}

/** The result of one attempt. `againMs`: the pause before the next try; null if this way does not try again. */
export type AttemptOutcome =
  | { outcome: 'taken' | 'offered'; ids: MessageId[]; evidence: Evidence }
  | { outcome: 'left'; ids: MessageId[]; because: string; againMs: number | null }
  /** Nothing was tried. `spent`: the messages for which this way has used all its tries; another reader has the others. */
  | { outcome: 'nothing'; spent: MessageId[] };

/**
 * Steps 4 and 5 of 5, by a way in. Claims the copies, notes `offered` with the name of the way for each, and only then lets the way try. The
 * answer of the client decides what is recorded:
 *
 * held, `offered` noted → taken: notes `accepted` or `shown` with the client's own evidence, and ends the copy as acknowledged.
 *                       → offered: nothing proves that the copy arrived. It waits again for other ways; this way does not try it again
 *                         after `most` tries.
 *                       → left: nothing was handed over. The copy waits again with the reason, and this way may try again after a pause.
 *
 * If this process dies in between, the copy waits again and its `offered` note stays open: what the client got is unknown, so the try counts
 * as a handover. Only a note that `left` closed does not count.
 */
export async function attempt(
  who: Who,
  mail: readonly (MessageId | Message)[],
  { way, wrap, by = {}, most = 1, now, signal }: AttemptOptions,
): Promise<AttemptOutcome> {
  const { mailboxes, journal } = who.home;
  const fresh: (MessageId | Message)[] = [];
  for (const one of mail) if ((await pastOf(who, idOf(one), way.name)).open < most) fresh.push(one);
  const claim = await claimed(who, fresh);
  const past = new Map<MessageId, Past>();
  for (const { message } of claim.copies) past.set(message.id, await pastOf(who, message.id, way.name));
  // Another Parley process may have handed a copy over by this way just before we claimed it.
  const late = claim.copies.filter(({ message }) => (past.get(message.id)?.open ?? 0) >= most);
  if (late.length > 0)
    await mailboxes.release(
      claim,
      late.map(({ message }) => message.id),
      SPENT,
    );
  claim.copies = claim.copies.filter((copy) => !late.includes(copy));
  const ids = claim.copies.map(({ message }) => message.id);
  if (ids.length === 0) return { outcome: 'nothing', spent: mail.filter((one) => !fresh.includes(one)).map(idOf) };

  const tryNumber = (id: MessageId): number => (past.get(id)?.attempts ?? 0) + 1;
  const release = (because: Evidence) => mailboxes.release(claim, ids, { ...because, way: way.name });
  const note = async (step: Receipt['step'], evidence: Evidence): Promise<void> => {
    for (const id of ids) {
      const noted = receipt(step, now(), { ...evidence, way: way.name, attempt: tryNumber(id) });
      await journal.record(who.name, id, noted);
    }
  };
  const outgoing = claim.copies
    .map((copy) => ({ ...copy, redelivered: copy.attempt > 0 || (past.get(copy.message.id)?.open ?? 0) > 0 }))
    .toSorted((a, b) => byTime(a.message, b.message));
  const parcels = await orRelease(() => wrap(outgoing), release, 'it could not be made ready');
  await note('offered', {});
  const result = await orRelease(
    () => whileHeld(who, claim, () => way.attempt(parcels, signal)),
    release,
    'the way failed; how far it came is unknown',
  );

  if (result.outcome === 'left') {
    // One by one, because each copy has its own number of tries: that number closes the note of this try.
    for (const id of ids) {
      const why = { way: way.name, left: true, try: tryNumber(id), because: result.because };
      await mailboxes.release(claim, [id], why);
    }
    const inARow = Math.max(...ids.map((id) => past.get(id)?.leftInARow ?? 0));
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(inARow, 20), LONGEST_PAUSE_MS);
    return { outcome: 'left', ids, because: result.because, againMs: result.retry ? pause : null };
  }
  if (result.outcome === 'offered') {
    await release({ ...result.evidence, because: 'handed over; nothing proves that it was taken' });
    return { outcome: 'offered', ids, evidence: result.evidence };
  }
  await note(result.step, result.evidence);
  const settlement = { disposition: 'acknowledged', by: { ...result.evidence, ...by, way: way.name } } as const;
  const settled = await mailboxes.settle(claim, ids, settlement, 'shown');
  // If another reader ended a copy meanwhile or holds it, the client's evidence is noted, but the copies were not taken by us.
  return { outcome: settled ? 'taken' : 'offered', ids, evidence: result.evidence };
}

const SPENT = { because: 'it was handed over this way before' };

function idOf(mail: MessageId | Message): MessageId {
  return typeof mail === 'string' ? mail : mail.id;
}

async function claimed(who: Who, mail: readonly (MessageId | Message)[]): Promise<Claim> {
  const read = new Map(mail.filter((one) => typeof one !== 'string').map((message) => [message.id, message]));
  return who.home.mailboxes.claim(who.name, mail.map(idOf), { ms: LEASE_MS }, read);
}

async function orRelease<T>(
  act: () => T | Promise<T>,
  release: (because: Evidence) => Promise<unknown>,
  because: string,
): Promise<T> {
  try {
    return await act();
  } catch (error) {
    await release({ because });
    throw error;
  }
}

/** Renews the lease while `act` runs, because a turn of a model can take longer than a lease. */
async function whileHeld(who: Who, claim: Claim, act: () => Promise<Attempt>): Promise<Attempt> {
  const renew = (): Promise<boolean> => who.home.mailboxes.renew(claim, { ms: LEASE_MS }).catch(() => false);
  const renewal = setInterval(() => void renew(), LEASE_MS / 3);
  try {
    return await act();
  } finally {
    clearInterval(renewal);
  }
}

/** The earlier tries of one way with one copy, by the receipts of the copy. */
interface Past {
  /** How many tries were noted. */
  attempts: number;
  /** How many of them were not closed by `left`: the copy may have been handed over. */
  open: number;
  /** How many tries were closed by `left` since the last open one. */
  leftInARow: number;
}

async function pastOf(who: Who, id: MessageId, way: WayName): Promise<Past> {
  const receipts = (await receiptsOf(who, id)).filter(({ evidence }) => evidence['way'] === way);
  const offered = receipts.filter(({ step }) => step === 'offered');
  const closed = receipts.filter(({ step, evidence }) => step === 'released' && evidence['left'] === true);
  const left = new Set(closed.map(({ evidence }) => evidence['try']));
  const isOpen = offered.map(({ evidence }) => !left.has(evidence['attempt'] ?? 0));
  return {
    attempts: offered.length,
    open: isOpen.filter(Boolean).length,
    leftInARow: isOpen.length - 1 - isOpen.lastIndexOf(true),
  };
}
