import type { AgentName, MessageId } from '../names.ts';
import type { CopyRecord, Settlement } from '../ports/journal.ts';
import type { WaitingMessage } from '../ports/mailboxes.ts';
import { LEASE_MS, waiting } from './deliver.ts';
import type { Selection } from './deliver.ts';
import type { Who } from './workspace.ts';

/**
 * A mailbox that an agent reads. `taker`: the mailbox is shared, and a copy there belongs to this agent once it was shown to it.
 *
 * waiting in the shared mailbox → held there for one reader → settled with its taker: the copy, its proof and its obligation then belong to
 * the taker. If a held copy cannot be shown to its reader, it waits again for all readers.
 */
export interface ReadMailbox {
  who: Who;
  taker?: AgentName;
}

/** The mailboxes that an agent reads, its own first. */
export function mailboxesOf({ name, home, shares }: Who): ReadMailbox[] {
  const own: ReadMailbox = { who: { name, home } };
  return shares === undefined ? [own] : [own, { who: { name: shares, home }, taker: name }];
}

/** The messages that wait in this mailbox for this reader, oldest first. An agent does not take its own messages. */
export async function waitingMail({ who, taker }: ReadMailbox, selection: Selection): Promise<WaitingMessage[]> {
  const mail = await waiting(who, selection);
  return taker === undefined ? mail : mail.filter(({ message }) => message.from !== taker);
}

/** The `taker` field of a settlement, if the mailbox is shared. */
export function takenBy(taker: AgentName | undefined): Pick<Settlement, 'taker'> {
  return taker === undefined ? {} : { taker };
}

/**
 * Takes the one message of the shared mailbox whose id begins with `prefix`, because its reader asks for it. Does nothing if the message was
 * shown to another agent, or is being shown to one now.
 */
export async function takeShared({ name, home, shares }: Who, prefix: string): Promise<void> {
  if (shares === undefined || prefix === '') return;
  const { mailboxes, journal } = home;
  await mailboxes.adopt(shares);
  const ids = await journal.idsLike(prefix);
  const id = ids.find((one) => one === prefix) ?? (ids.length === 1 ? ids[0] : undefined);
  const copy = id && (await journal.copy(shares, id));
  if (!copy || (await journal.message(id))?.from === name) return;
  // The copy ended before sessions had names of their own.
  if (copy.state === 'settled') return journal.assign(shares, id, name);
  const claim = await claimOf({ name: shares, home }, copy, name);
  const by = { by: 'asked for', agent: name };
  if (claim) await mailboxes.settle(claim, [id], { disposition: 'acknowledged', by, taker: name }, 'shown');
}

/** The claim with which this reader may end the copy: that of its own offer, or a new one. Null if another reader has the copy. */
async function claimOf(
  shared: Who,
  { id, owner, bearer }: CopyRecord,
  taker: AgentName,
): Promise<{ mailbox: AgentName; owner: string } | null> {
  const { mailboxes } = shared.home;
  if (owner !== null) return bearer && (await offeredTo(shared, id)) === taker ? { mailbox: shared.name, owner } : null;
  const claim = await mailboxes.claim(shared.name, [id], { ms: LEASE_MS });
  return claim.copies.length > 0 ? claim : null;
}

/** The agent that a copy of a shared mailbox was offered to last. */
export async function offeredTo(shared: Who, id: MessageId): Promise<unknown> {
  const copy = (await shared.home.journal.trace(id))?.copies.find(({ mailbox }) => mailbox === shared.name);
  return copy?.receipts.findLast(({ step }) => step === 'offered')?.evidence['taker'];
}
