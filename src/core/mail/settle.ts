import type { AgentName, MessageId } from '../names.ts';
import type { Disposition, Evidence } from '../receipt.ts';
import { Refusal } from '../refusal.ts';
import type { CopyRecord } from '../ports/journal.ts';
import { LEASE_MS } from './deliver.ts';
import { discharge, endObligation, enterObligations } from '../obligations/obligation.ts';
import type { Home, Who } from './workspace.ts';

/** Step 5 of 5. Ends one copy with this disposition, whether it waits or is held in the name of a bearer. */
export async function settle(
  who: Who,
  id: MessageId,
  disposition: Disposition,
  by: Evidence,
  keep = false,
  now = Date.now(),
): Promise<void> {
  const { mailboxes } = who.home;
  if (await endShown(who, id, disposition, by, now)) return;
  const copy = await openCopy(who, id);
  const claim = copy?.owner
    ? { mailbox: who.name, owner: bearerOf(copy) }
    : await mailboxes.claim(who.name, [id], { ms: LEASE_MS });
  const done = await mailboxes.settle(claim, [id], { disposition, by, keep });
  if (!done) throw new Refusal('already_claimed', `message ${id.slice(0, 8)} was claimed by another session`);
  const obligation = await who.home.journal.obligation(who.name, id);
  if (obligation && !obligation.ended) await endObligation(who.home, who.name, id, disposition, by, now);
}

/** Like `settle`, but returns false if the copy has already ended or another session has claimed it. */
export async function settleIfOpen(who: Who, id: MessageId, disposition: Disposition, by: Evidence): Promise<boolean> {
  try {
    if ((await who.home.journal.copy(who.name, id))?.settledAt !== null) return false;
    await settle(who, id, disposition, by);
    return true;
  } catch (error) {
    if (error instanceof Refusal && error.code === 'already_claimed') return false;
    throw error;
  }
}

/** Ends the obligation of a copy that was shown and settled before. False if nothing is owed. */
async function endShown(who: Who, id: MessageId, as: Disposition, by: Evidence, now: number): Promise<boolean> {
  const { journal } = who.home;
  const copy = await journal.copy(who.name, id);
  if (copy?.state !== 'settled') return false;
  if (copy.attention.policy === 'must_respond') await enterObligations(who.home);
  const obligation = await journal.obligation(who.name, id);
  if (!obligation || obligation.ended) return false;
  if ((await endObligation(who.home, who.name, id, as, by, now))?.ended) return true;
  throw new Refusal('not_yours', `@${obligation.from} waits for message ${id.slice(0, 8)}; only they can discharge it`);
}

/** Gives a held copy back, at once or after `delayMs`. Its reader has seen it, so the next delivery is marked as a redelivery. */
export async function release(who: Who, id: MessageId, because: Evidence, delayMs?: number): Promise<void> {
  const copy = await openCopy(who, id);
  if (!copy?.owner)
    throw new Refusal(
      'not_found',
      `message ${id.slice(0, 8)} is not held; release a message that a hook has shown you or that you took with --lease`,
    );
  const evidence = { ...because, agent: who.name };
  await who.home.mailboxes.release({ mailbox: who.name, owner: bearerOf(copy) }, [id], evidence, delayMs, true);
}

/** Withdraws the copies of a message that nobody has taken yet. Only the sender may. Returns the copies as they were before. */
export async function withdraw(from: AgentName, home: Home, id: MessageId): Promise<CopyRecord[]> {
  const message = await home.journal.message(id);
  if (!message) throw new Refusal('not_found', `no message has the id ${id}`);
  if (message.from !== from)
    throw new Refusal(
      'not_yours',
      `message ${id.slice(0, 8)} was sent by ${message.from}; only its sender can withdraw it`,
    );
  const by = { withdrawn: true, by: from };
  const before = await home.mailboxes.withdraw(id, by);
  for (const { mailbox } of before) {
    const obligation = await home.journal.obligation(mailbox, id);
    const copy = obligation && !obligation.ended ? await home.journal.copy(mailbox, id) : null;
    // A reader that has taken the message still owes the answer.
    if (copy?.disposition !== 'superseded') continue;
    await discharge(home, mailbox, id, 'superseded', by, Date.parse(copy.settledAt ?? '') || 0);
  }
  return before;
}

/** The bearer that holds a copy. Refuses a copy that a running process holds: only that process may end it. */
function bearerOf({ id, owner, bearer }: CopyRecord): string {
  if (owner && bearer) return owner;
  throw new Refusal(
    'already_claimed',
    `message ${id.slice(0, 8)} is held by a running session; that session settles it, or it waits again`,
  );
}

/** The reader's open copy; null if the message is unknown. Throws a Refusal if the copy has ended or the message is for others. */
async function openCopy(who: Who, id: MessageId): Promise<CopyRecord | null> {
  const copy = await who.home.journal.copy(who.name, id);
  if (!copy && (await who.home.journal.message(id))) {
    throw new Refusal('not_yours', `message ${id.slice(0, 8)} was not sent to you`);
  }
  if (copy?.state === 'settled')
    throw new Refusal(
      'already_claimed',
      `message ${id.slice(0, 8)} is already settled (${copy.disposition ?? 'unknown'})`,
    );
  if (copy?.state === 'gone')
    throw new Refusal('already_claimed', `message ${id.slice(0, 8)} was taken by another program`);
  return copy;
}
