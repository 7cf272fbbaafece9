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

/** Pause before the same way tries again; it doubles with each failure, up to the maximum. */
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 300_000;

/** A claimed copy that goes to a client. `redelivered`: it may have been before the model already. */
export type OutgoingCopy = Delivered & { redelivered: boolean };

export interface AttemptOptions {
  way: Way;
  /** Renders the claimed copies for the model, and may record them first. If it throws, everything waits again. */
  wrap: (outgoing: readonly OutgoingCopy[]) => readonly Parcel[];
  /** What is recorded when a copy ends, beside the client's own evidence. */
  by?: Evidence;
  /** How often this way may hand over one copy without proof that it was taken. */
  most?: number;
  now: () => number;
  signal: AbortSignal;
}

/** The outcome. `againMs`: when to try again; null if this way never will. */
export type AttemptOutcome =
  | { outcome: 'taken' | 'offered'; ids: MessageId[]; evidence: Evidence }
  | { outcome: 'left'; ids: MessageId[]; because: string; againMs: number | null }
  /** Nothing to do: others have the copy, or this way has used all its tries. */
  | { outcome: 'nothing'; spent: MessageId[] };

/**
 * Step 4 and 5 of 5 by a way in: claims copies, notes for each that it goes out and by which way, and only then lets the way try. What the
 * client says decides what is said of them:
 *
 * held, `offered` noted → taken: `accepted` or `shown` is noted with the client's own evidence, and the copy ends as acknowledged.
 *                       → offered: nothing proves that it arrived. It waits again, for other ways; by this one it does not go out again.
 *                       → left: nothing went out. It waits again at once, with the reason, and this way may try again after a pause.
 *
 * If we die in between, the copy waits again and its note stays open: what the client got is unknown, so it counts as handed over. Only a
 * note that was closed by `left` does not.
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
  // Another program of ours may have handed it over by this way just before we got it.
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

  const number = (id: MessageId): number => (past.get(id)?.attempts ?? 0) + 1;
  const release = (because: Evidence) => mailboxes.release(claim, ids, { ...because, way: way.name });
  const note = async (step: Receipt['step'], evidence: Evidence): Promise<void> => {
    for (const id of ids) {
      const noted = receipt(step, now(), { ...evidence, way: way.name, attempt: number(id) });
      await journal.record(who.name, id, noted);
    }
  };
  const outgoing = claim.copies
    .map((copy) => ({ ...copy, redelivered: copy.attempt > 0 || (past.get(copy.message.id)?.open ?? 0) > 0 }))
    .toSorted((a, b) => byTime(a.message, b.message));
  const parcels = await orRelease(() => wrap(outgoing), release, 'it could not be made ready');
  await note('offered', {});
  const said = await orRelease(
    () => whileHeld(who, claim, () => way.attempt(parcels, signal)),
    release,
    'the way failed; how far it came is unknown',
  );

  if (said.outcome === 'left') {
    // One by one: each has its own number of tries, and the note of this one is closed by its number.
    for (const id of ids) {
      const why = { way: way.name, left: true, try: number(id), because: said.because };
      await mailboxes.release(claim, [id], why);
    }
    const inARow = Math.max(...ids.map((id) => past.get(id)?.leftInARow ?? 0));
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(inARow, 20), LONGEST_PAUSE_MS);
    return { outcome: 'left', ids, because: said.because, againMs: said.retry ? pause : null };
  }
  if (said.outcome === 'offered') {
    await release({ ...said.evidence, because: 'handed over; nothing proves that it was taken' });
    return { outcome: 'offered', ids, evidence: said.evidence };
  }
  await note(said.step, said.evidence);
  const settlement = { disposition: 'acknowledged', by: { ...said.evidence, ...by, way: way.name } } as const;
  const settled = await mailboxes.settle(claim, ids, settlement, 'shown');
  // Another reader ended it meanwhile, or holds it: what the client said is noted, and no more can be said.
  return { outcome: settled ? 'taken' : 'offered', ids, evidence: said.evidence };
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

/** A turn of a model can take longer than a lease: it is prolonged as long as we live. */
async function whileHeld(who: Who, claim: Claim, act: () => Promise<Attempt>): Promise<Attempt> {
  const renew = (): Promise<boolean> => who.home.mailboxes.renew(claim, { ms: LEASE_MS }).catch(() => false);
  const renewal = setInterval(() => void renew(), LEASE_MS / 3);
  try {
    return await act();
  } finally {
    clearInterval(renewal);
  }
}

/** What the receipts of one copy say of one way. */
interface Past {
  /** How often it was noted as going out this way. */
  attempts: number;
  /** How many of those notes were not closed by saying that nothing went out. */
  open: number;
  /** How many were closed so since the last that was not. */
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
