import type { AgentName, MessageId } from '../core/names.ts';
import type { LiveSession, RecordedProof } from '../core/ports/live-session.ts';
import { LEASE_ENDED } from '../core/ports/journal.ts';
import type { CopyRecord } from '../core/ports/journal.ts';
import type { Parcel, Way } from '../core/ports/way-in.ts';
import { OFFERED_MS, settleShown } from '../core/mail/offered.ts';
import type { Delivered } from '../core/mail/deliver.ts';
import { takenBy } from '../core/mail/shared.ts';
import { receiptsOf } from '../core/mail/workspace.ts';
import type { Who } from '../core/mail/workspace.ts';
import { byTime } from '../core/message.ts';
import { receipt } from '../core/receipt.ts';
import type { Receipt } from '../core/receipt.ts';
import { newHolder } from '../platform/holder.ts';
import { isProcessAlive, startOf } from '../platform/process.ts';
import { noteHoldReason } from './wake-budget.ts';

/** Copies that were handed to running sessions are held under this name. It outlives the process, so the next follower finds them. */
const BEARER = 'follower';
const RENEW_MS = OFFERED_MS / 3;

/** The session that a copy was handed to. */
export type HandoverTarget = Pick<LiveSession, 'client' | 'id' | 'folder' | 'pid' | 'start'>;

/** `unproven`: the client got the copies, and nothing proves yet that its model was given them. `left`: nothing went in. */
export type HandOverOutcome =
  | { outcome: 'shown'; ids: MessageId[] }
  | { outcome: 'unproven'; ids: MessageId[]; because: string }
  | { outcome: 'left'; ids: MessageId[]; because: string; retry: boolean }
  | { outcome: 'declined'; ids: MessageId[]; because: string }
  | { outcome: 'nothing' };

export interface HandOverOptions {
  way: Way;
  session: HandoverTarget & Pick<LiveSession, 'status'>;
  /** Set for a shared mailbox: a copy that was shown becomes this agent's. */
  taker?: AgentName | undefined;
  /** Renders the claimed copies, oldest first. If it throws, all of them wait again. */
  wrap(copies: readonly Delivered[]): Promise<readonly Parcel[]>;
  /** What the client's record says about one of these messages; null if the record cannot be read. */
  proof(id: MessageId): Promise<RecordedProof | null>;
  now(): number;
  signal: AbortSignal;
}

/**
 * Step 4 and 5 of 5 for a running session that can be reached without typing.
 *
 * waiting → held as `BEARER`, `offered` recorded with the session → the way tries
 *   shown:    the copy is settled with the client's own evidence
 *   left:     nothing went in; the copy waits again at once
 *   declined: the user of the client refused it; the copy ends as ignored
 *   unproven: the copy stays held until `resolveHandover` knows more, so neither a hook nor another session shows it a second time
 *
 * If we are killed, the copy stays held, and the next follower resolves it by the client's record. If no follower comes, the copy waits
 * again after an hour, marked `redelivered`.
 */
export async function handOver(who: Who, ids: MessageId[], options: HandOverOptions): Promise<HandOverOutcome> {
  const { way, session, signal, taker } = options;
  const { mailboxes, journal } = who.home;
  const claim = await mailboxes.claim(who.name, ids, { ms: OFFERED_MS, bearer: BEARER });
  if (claim.copies.length === 0) return { outcome: 'nothing' };
  const copies = claim.copies.toSorted((a, b) => byTime(a.message, b.message));
  const claimed = copies.map(({ message }) => message.id);
  const { client, id: to, folder, pid, start } = session;
  const process = { ...(pid && { pid }), ...(start && { start }) };
  const wake = session.status === 'idle' && { woke: true };
  const evidence = { way: way.name, client, session: to, folder, ...process, ...takenBy(taker), ...wake };
  let parcels: readonly Parcel[];
  try {
    parcels = await options.wrap(copies);
    const offered = receipt('offered', options.now(), evidence);
    for (const id of claimed) await journal.record(who.name, id, offered);
  } catch (error) {
    await mailboxes.release(claim, claimed, { because: 'it could not be made ready' });
    throw error;
  }
  const renewal = setInterval(() => void mailboxes.renew(claim, { ms: OFFERED_MS }).catch(() => false), RENEW_MS);
  const said = await way.attempt(parcels, signal).finally(() => clearInterval(renewal));
  if (said.outcome === 'left' && said.isDeclined) {
    // The user has decided, so no hook shows it either.
    const by = { way: way.name, session: session.id, because: said.because };
    await mailboxes.settle(claim, claimed, { disposition: 'ignored', by }, 'shown');
    return { outcome: 'declined', ids: claimed, because: said.because };
  }
  if (said.outcome === 'left') {
    const isFinal = !said.retry && { session: session.id, final: true };
    await mailboxes.release(claim, claimed, { way: way.name, because: said.because, ...isFinal });
    return { outcome: 'left', ids: claimed, because: said.because, retry: said.retry };
  }
  if (said.outcome === 'taken' && said.step === 'shown') {
    for (const id of claimed) {
      const proof = await options.proof(id);
      const own = proof?.step === 'shown' ? proof.evidence : said.evidence;
      const by = { ...own, way: way.name, session: session.id };
      await settleShown(who, newHolder(BEARER), id, by, options.now(), taker);
    }
    return { outcome: 'shown', ids: claimed };
  }
  return { outcome: 'unproven', ids: claimed, because: String(said.evidence['because'] ?? '') };
}

/** One attempt to hand a copy to a running session. */
export interface Handover {
  id: MessageId;
  to: HandoverTarget;
  /** When the attempt began, Unix ms. */
  at: number;
  way: string;
  /** Set for a shared mailbox: the agent whose the copy becomes when it was shown. */
  taker?: AgentName | undefined;
}

/**
 * The handovers of this mailbox that are not proven yet, also those of an earlier follower. `isTrying` says which messages this process
 * is handing over now.
 */
export async function unprovenCopies(who: Who, isTrying: (id: MessageId) => boolean): Promise<Handover[]> {
  const all: Handover[] = [];
  for (const { id } of await who.home.journal.heldBy(who.name, newHolder(BEARER))) {
    const handover = await lastHandover(who, id, true);
    if (handover) all.push(handover);
    // A follower died between the claim and the `offered` receipt: nothing was handed over.
    else if (!isTrying(id)) await putBack(who, id, 'it was not handed over', false);
  }
  return all;
}

/** The last handover of a copy to a running session; null: there was none. With `isOpen`: null also if the copy was released since. */
export async function lastHandover(who: Who, id: MessageId, isOpen = false): Promise<Handover | null> {
  const receipts = await receiptsOf(who, id);
  const at = receipts.findLastIndex(({ step, evidence }) => step === 'offered' && 'folder' in evidence);
  const [note, ...later] = at < 0 ? [] : receipts.slice(at);
  // A claim that ended by time does not tell what became of the copy.
  const isGivenBack = ({ step, evidence }: Receipt): boolean =>
    step === 'released' && evidence['because'] !== LEASE_ENDED;
  if (!note || (isOpen && later.some(isGivenBack))) return null;
  const { client, session, folder, way, pid, start, taker } = note.evidence;
  const to: HandoverTarget = { client: String(client), id: String(session), folder: String(folder) };
  if (typeof pid === 'number') to.pid = pid;
  if (typeof start === 'string') to.start = start;
  return { id, to, at: Date.parse(note.at), way: String(way), taker: taker as AgentName | undefined };
}

/**
 * The handover in doubt: the claim of a waiting copy ended by time, so this session may have the copy. Null: there is none, or its end is
 * known.
 */
export async function handoverInDoubt(who: Who, id: MessageId, session: string): Promise<Handover | null> {
  const released = (await receiptsOf(who, id)).findLast(({ step }) => step === 'released');
  const handover = released?.evidence['because'] === LEASE_ENDED ? await lastHandover(who, id) : null;
  return handover?.to.id === session ? handover : null;
}

const IN_DOUBT = 'it was handed to this session, and nothing shows what became of it; it comes with the next turn';

/**
 * Resolves a handover in doubt by what the client's record says now. Returns true if the client cannot have the message any more: then it
 * may be handed over again. If the record has the message, the copy is claimed again, as if its claim had not ended. If nothing is known,
 * the message is not handed over a second time: a hook shows it, marked `redelivered`.
 */
export async function resolveDoubt(
  who: Who,
  doubt: Handover,
  proof: RecordedProof | null,
  now: number,
): Promise<boolean> {
  if (!proof || proof.step === 'none') {
    if (proof?.isOver) return true;
    await noteHoldReason(who, doubt.id, IN_DOUBT, now);
    return false;
  }
  const { copies } = await who.home.mailboxes.claim(who.name, [doubt.id], { ms: OFFERED_MS, bearer: BEARER });
  if (copies.length > 0) await resolveHandover(who, doubt, proof, now);
  return false;
}

/** Whether the client's process that got a copy has ended. False if that process is not known. */
export function hasEnded({ pid, start }: HandoverTarget): boolean {
  return pid !== undefined && (!isProcessAlive(pid) || (start !== undefined && startOf(pid) !== start));
}

/** Ends a handover by what the client's record says. `unknown`: the record decides nothing yet, and the copy stays held. */
export async function resolveHandover(
  who: Who,
  { id, to, way, taker }: Handover,
  proof: RecordedProof,
  now: number,
): Promise<'shown' | 'declined' | 'waits again' | 'unknown'> {
  const { mailboxes } = who.home;
  const claim = { mailbox: who.name, owner: newHolder(BEARER) };
  if (proof.step === 'shown') {
    await settleShown(who, newHolder(BEARER), id, { ...proof.evidence, way, session: to.id }, now, taker);
    return 'shown';
  }
  if (proof.step === 'declined') {
    const by = { way, session: to.id, because: proof.because };
    await mailboxes.settle(claim, [id], { disposition: 'ignored', by }, 'shown');
    return 'declined';
  }
  if (proof.step === 'accepted' || !proof.isOver) {
    await mailboxes.renew(claim, { ms: OFFERED_MS, bearer: BEARER });
    return 'unknown';
  }
  await putBack(who, id, 'the client ended, or is idle, and its record does not show it');
  return 'waits again';
}

/** Renews the follower's claims in this mailbox. After the machine slept, the timer in `handOver` that renews them may be late. */
export async function keepClaimed({ name, home }: Who): Promise<void> {
  await home.mailboxes.renew({ mailbox: name, owner: newHolder(BEARER) }, { ms: OFFERED_MS, bearer: BEARER });
}

async function putBack(who: Who, id: MessageId, because: string, isBegun = true): Promise<void> {
  await who.home.mailboxes.release({ mailbox: who.name, owner: newHolder(BEARER) }, [id], { because }, 0, isBegun);
}

/** Whether an attempt with this session was given up for good. */
export async function isRefusedBy(who: Who, id: MessageId, session: string): Promise<boolean> {
  return (await receiptsOf(who, id)).some(
    ({ step, evidence }) => step === 'released' && evidence['final'] === true && evidence['session'] === session,
  );
}

/** Whether this copy is given to a session without being asked for. */
export function isPushed({ attention }: Pick<CopyRecord, 'attention'>): boolean {
  return attention.injection === 'immediate' || attention.injection === 'buffered';
}
