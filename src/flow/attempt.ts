import type { Attempt, Parcel, Way, WayName } from '../delivery/way.ts';
import type { Message } from '../protocol/message.ts';
import type { MessageId } from '../protocol/names.ts';
import type { Evidence, Receipt } from '../protocol/receipt.ts';
import type { Claim } from '../storage/spool/spool.ts';
import { LEASE_MS } from './deliver.ts';
import type { Delivered } from './deliver.ts';
import type { Who } from './desk.ts';

/** After what was left, the same way is tried again no sooner than this; each time in a row twice as long, up to the last. */
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 300_000;

/** A claimed copy that goes to a client. `redelivered`: it may have been before the model already. */
export type OutgoingCopy = Delivered & { redelivered: boolean };

export interface AttemptOptions {
  way: Way;
  /** Renders the claimed copies for the model; may keep a note of it first. If it throws, everything waits again. */
  wrap: (outgoing: readonly OutgoingCopy[]) => readonly Parcel[];
  /** What is written down about the end of a copy, beside the client's own evidence. */
  by?: Evidence;
  /** How often this way may hand over one copy without anybody's word that it was taken. */
  most?: number;
  now: () => number;
  signal: AbortSignal;
}

/** What became of it. `againMs`: after how long it may go better; null if never by this way. */
export type AttemptOutcome =
  | { outcome: 'taken' | 'offered'; ids: MessageId[]; evidence: Evidence }
  | { outcome: 'left'; ids: MessageId[]; because: string; againMs: number | null }
  /** Nothing was in reach: others have it, or this way handed it over as often as it may. */
  | { outcome: 'nothing'; spent: MessageId[] };

/**
 * Step 4 and 5 of 5 by a way in: claims copies, notes for each that it goes out and by which way, and only then lets the
 * way try. What the client says decides what is said of them:
 *
 * held, `offered` noted → taken: `accepted` or `shown` is noted with the client's own evidence, and the copy ends as acknowledged.
 *                       → offered: nothing proves that it arrived. It waits again, for other ways; by this one it does not go out again.
 *                       → left: nothing went out. It waits again at once, with the reason, and this way may try again after a pause.
 *
 * If we die in between, the copy waits again and its note stays open: nobody can tell what the client got, so it counts as handed
 * over. Only a note that was closed by `left` does not.
 */
export async function attempt(
  who: Who,
  mail: readonly (MessageId | Message)[],
  { way, wrap, by = {}, most = 1, now, signal }: AttemptOptions,
): Promise<AttemptOutcome> {
  const [spent, fresh] = await split(mail, async (one) => (await past(who, idOf(one), way.name)).open >= most);
  const claim = await claimed(who, fresh);
  const history = new Map<MessageId, Past>();
  for (const { message } of claim.copies) history.set(message.id, await past(who, message.id, way.name));
  // Another program of ours may have handed it over by this way just before we got it.
  const [late] = await split(claim.copies, async ({ message }) => (history.get(message.id)?.open ?? 0) >= most);
  if (late.length > 0) await putBack(who, claim, late);
  if (claim.copies.length === 0) return { outcome: 'nothing', spent: spent.map(idOf) };

  const outgoing = claim.copies
    .map((copy) => ({ ...copy, redelivered: copy.attempt > 0 || (history.get(copy.message.id)?.open ?? 0) > 0 }))
    .toSorted((a, b) => Number(a.message.ts > b.message.ts) - Number(a.message.ts < b.message.ts));
  const held = new HeldCopies(who, way.name, claim, history, now);
  const parcels = await held.orPutBack(() => wrap(outgoing));
  await held.noteOffered();
  const said = await held.whileHeld(() => way.attempt(parcels, signal));
  return held.close(said, by);
}

function idOf(mail: MessageId | Message): MessageId {
  return typeof mail === 'string' ? mail : mail.id;
}

/** What the receipts of one copy say of one way. */
interface Past {
  /** How often it was noted as going out this way. */
  attempts: number;
  /** How many of those notes nobody closed by saying that nothing went out. */
  open: number;
  /** How many were closed so since the last that was not. */
  leftInARow: number;
}

async function past(who: Who, id: MessageId, way: WayName): Promise<Past> {
  const copy = (await who.home.ledger.trace(id))?.copies.find(({ mailbox }) => mailbox === who.name);
  const receipts = copy?.receipts ?? [];
  const offered = receipts.filter(({ step, evidence }) => step === 'offered' && evidence['way'] === way);
  const left = new Set(receipts.filter((one) => isLeft(one, way)).map(({ evidence }) => evidence['try']));
  const isOpen = offered.map(({ evidence }) => !left.has(evidence['attempt'] ?? 0));
  return {
    attempts: offered.length,
    open: isOpen.filter(Boolean).length,
    leftInARow: isOpen.length - 1 - isOpen.lastIndexOf(true),
  };
}

function isLeft({ step, evidence }: Receipt, way: WayName): boolean {
  return step === 'released' && evidence['way'] === way && evidence['left'] === true;
}

async function claimed(who: Who, mail: readonly (MessageId | Message)[]): Promise<Claim> {
  const read = new Map(mail.filter((one) => typeof one !== 'string').map((message) => [message.id, message]));
  return who.home.spool.claim(who.name, mail.map(idOf), { ms: LEASE_MS }, read);
}

async function putBack(who: Who, claim: Claim, copies: readonly Delivered[]): Promise<void> {
  const ids = copies.map(({ message }) => message.id);
  await who.home.spool.release(claim, ids, { because: 'it was handed over this way before' });
  claim.copies = claim.copies.filter((copy) => !copies.includes(copy));
}

async function split<T>(all: readonly T[], isFirst: (one: T) => Promise<boolean>): Promise<[T[], T[]]> {
  const halves: [T[], T[]] = [[], []];
  for (const one of all) halves[(await isFirst(one)) ? 0 : 1].push(one);
  return halves;
}

/** The claimed copies while a way tries. */
class HeldCopies {
  readonly ids: MessageId[];

  constructor(
    readonly who: Who,
    readonly way: WayName,
    readonly claim: Claim,
    readonly history: ReadonlyMap<MessageId, Past>,
    readonly now: () => number,
  ) {
    this.ids = claim.copies.map(({ message }) => message.id);
  }

  async orPutBack<T>(act: () => T): Promise<T> {
    try {
      return act();
    } catch (error) {
      await this.who.home.spool.release(this.claim, this.ids, { because: 'it could not be made ready', way: this.way });
      throw error;
    }
  }

  async noteOffered(): Promise<void> {
    await this.#note('offered', (id) => ({ way: this.way, attempt: this.#attempt(id) }));
  }

  /** A turn of a model can take longer than a lease: it is prolonged as long as we live. A way that fails has handed over who knows what. */
  async whileHeld(act: () => Promise<Attempt>): Promise<Attempt> {
    const renewal = setInterval(() => void this.#renew(), LEASE_MS / 3);
    try {
      return await act();
    } catch (error) {
      await this.#release({ because: 'the way failed; how far it came is unknown' });
      throw error;
    } finally {
      clearInterval(renewal);
    }
  }

  async close(said: Attempt, by: Evidence): Promise<AttemptOutcome> {
    if (said.outcome === 'left') return this.#left(said);
    if (said.outcome === 'offered') {
      await this.#release({ ...said.evidence, because: 'handed over; nothing proves that it was taken' });
      return { outcome: 'offered', ids: this.ids, evidence: said.evidence };
    }
    await this.#note(said.step, (id) => ({ ...said.evidence, way: this.way, attempt: this.#attempt(id) }));
    const settlement = { disposition: 'acknowledged', by: { ...said.evidence, ...by, way: this.way } } as const;
    const settled = await this.who.home.spool.settle(this.claim, this.ids, settlement, 'shown');
    // Somebody else ended it meanwhile, or holds it: what the client said is noted, and that is all that can be said.
    return { outcome: settled ? 'taken' : 'offered', ids: this.ids, evidence: said.evidence };
  }

  async #left({ because, retry }: Extract<Attempt, { outcome: 'left' }>): Promise<AttemptOutcome> {
    // One by one: each has its own number of tries, and the note of this one is closed by its number.
    for (const id of this.ids) {
      const why = { way: this.way, left: true, try: this.#attempt(id), because };
      await this.who.home.spool.release(this.claim, [id], why);
    }
    const before = Math.max(...this.ids.map((id) => this.history.get(id)?.leftInARow ?? 0));
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(before, 20), LONGEST_PAUSE_MS);
    return { outcome: 'left', ids: this.ids, because, againMs: retry ? pause : null };
  }

  async #renew(): Promise<void> {
    await this.who.home.spool.renew(this.claim, { ms: LEASE_MS }).catch(() => false);
  }

  async #release(because: Evidence): Promise<void> {
    await this.who.home.spool.release(this.claim, this.ids, { ...because, way: this.way });
  }

  async #note(step: Receipt['step'], evidence: (id: MessageId) => Evidence): Promise<void> {
    const at = new Date(this.now()).toISOString();
    for (const id of this.ids) {
      await this.who.home.ledger.record(this.who.name, id, { step, at, evidence: evidence(id) });
    }
  }

  #attempt(id: MessageId): number {
    return (this.history.get(id)?.attempts ?? 0) + 1;
  }
}
