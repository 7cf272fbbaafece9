import type { Injection } from '../attention/attention.ts';
import type { AgentName, MessageId } from '../names.ts';
import type { Evidence, Receipt } from '../receipt.ts';
import type { Settlement } from '../ports/journal.ts';
import type { Lease } from '../ports/mailboxes.ts';
import { LEASE_MS } from './deliver.ts';
import type { Delivered } from './deliver.ts';
import { takenBy } from './shared.ts';
import { receiptsOf } from './workspace.ts';
import type { Who } from './workspace.ts';

/**
 * How long a running session keeps offered mail without a further event. This is longer than nearly every step of a turn, so no other
 * session is shown the mail while the first one thinks. It is short enough that an interrupted session does not keep mail for a day.
 */
export const OFFERED_MS = 60 * 60 * 1000;

/** The lease of a session that is offered mail. `bearer` identifies the session. */
export type SessionLease = Lease & { bearer: string };

/**
 * Step 4 of 5 for a session that gets a text before it is known whether its model will see it.
 *
 * waiting → offered: held in the session's name, then printed
 * offered → settled: by `settleOffered`, when the session's next event proves that its model was asked; or by a reply, `ack` or reaction
 *         → waiting, marked as a redelivery: by `putBack`, when the next event proves nothing; when the client's process ends; or after
 *           OFFERED_MS
 *
 * If printing fails, the copies wait again as before.
 */
export async function claimForSession(
  who: Who,
  ids: MessageId[],
  lease: SessionLease,
  show: (delivered: Delivered[]) => void,
  offered: Receipt,
): Promise<Delivered[]> {
  const { mailboxes, journal } = who.home;
  const claim = await mailboxes.claim(who.name, ids, lease);
  if (claim.copies.length === 0) return [];
  const held = claim.copies.map(({ message }) => message.id);
  try {
    for (const id of held) await journal.record(who.name, id, offered);
    show(claim.copies);
  } catch (error) {
    await mailboxes.release(claim, held, { because: 'it could not be shown' });
    throw error;
  }
  return claim.copies;
}

/**
 * Step 5 of 5 for offered copies. A copy that its reader has answered or released meanwhile, or that another session has, stays as it is. A
 * copy whose lease has ended is claimed again and settled. A copy that cannot be settled waits again, marked as a redelivery: it was shown.
 */
export async function settleOffered(
  who: Who,
  owner: string,
  ids: MessageId[],
  by: Evidence,
  taker?: AgentName,
): Promise<void> {
  if (ids.length === 0) return;
  const settlement = { disposition: 'acknowledged', by, ...takenBy(taker) } as const;
  const isDone = await who.home.mailboxes.settle({ mailbox: who.name, owner }, ids, settlement, 'shown');
  if (!isDone) for (const id of ids) await settleIfThere(who, owner, id, settlement);
}

/** Settles with proof: the client's own record shows the message. The proof is noted once, also if the copy has already ended. */
export async function settleShown(
  who: Who,
  owner: string,
  id: MessageId,
  by: Evidence,
  at: number,
  taker?: AgentName,
): Promise<void> {
  const copies = (await who.home.journal.trace(id))?.copies ?? [];
  const copy = copies.find(({ mailbox }) => mailbox === taker) ?? copies.find(({ mailbox }) => mailbox === who.name);
  const isNoted = copy?.receipts.some(
    ({ step, evidence }) =>
      step === 'shown' && evidence['record'] === by['record'] && evidence['offset'] === by['offset'],
  );
  if (!isNoted)
    await who.home.journal.record(copy?.mailbox ?? who.name, id, {
      step: 'shown',
      at: new Date(at).toISOString(),
      evidence: by,
    });
  await settleOffered(who, owner, [id], by, taker);
}

async function settleIfThere(who: Who, owner: string, id: MessageId, settlement: Settlement): Promise<void> {
  const { mailboxes, journal } = who.home;
  const copy = await journal.copy(who.name, id);
  if (copy?.state === 'held' && copy.owner === owner) {
    await mailboxes.settle({ mailbox: who.name, owner }, [id], settlement, 'shown');
  } else if (copy?.state === 'stored' && !(await isReleased(who, id, settlement.by))) {
    // The lease ended during a long turn, and nobody else has claimed the copy.
    await mailboxes.settle(await mailboxes.claim(who.name, [id], { ms: LEASE_MS }), [id], settlement, 'shown');
  }
}

/** Settles a copy of a shared mailbox whose taker was only pointed to it. A copy that another reader took meanwhile stays as it is. */
export async function takePointed(who: Who, id: MessageId, by: Evidence, taker: AgentName): Promise<void> {
  const { mailboxes } = who.home;
  const claim = await mailboxes.claim(who.name, [id], { ms: LEASE_MS });
  if (claim.copies.length > 0) await mailboxes.settle(claim, [id], { disposition: 'acknowledged', by, taker }, 'shown');
}

/** Did the reader itself release the copy after it was last offered to this session? See `release` in settle.ts. */
async function isReleased(who: Who, id: MessageId, { session }: Evidence): Promise<boolean> {
  const receipts = await receiptsOf(who, id);
  const offered = receipts.findLastIndex(({ step, evidence }) => step === 'offered' && evidence['session'] === session);
  return receipts
    .slice(offered + 1)
    .some(({ step, evidence }) => step === 'released' && evidence['agent'] === who.name);
}

/** Releases every copy that is still held under this owner name, marked as a redelivery: it may have been shown. */
export async function putBack(who: Who, owner: string, because: Evidence): Promise<void> {
  const { mailboxes, journal } = who.home;
  const ids = (await journal.heldBy(who.name, owner)).map(({ id }) => id);
  if (ids.length > 0) await mailboxes.release({ mailbox: who.name, owner }, ids, because, 0, true);
}

/**
 * Makes a message wait again, with this injection, after a session was only pointed to it. It is marked as a redelivery. A copy that was
 * taken meanwhile stays as it is.
 */
export async function putBackPointer(who: Who, id: MessageId, injection: Injection, because: Evidence): Promise<void> {
  const { mailboxes, journal } = who.home;
  const claim = await mailboxes.claim(who.name, [id], { ms: LEASE_MS });
  const [copy] = claim.copies;
  if (!copy) return;
  if (copy.attention.injection !== injection) await journal.reconsider(who.name, id, { ...copy.attention, injection });
  await mailboxes.release(claim, [id], because, 0, true);
}
