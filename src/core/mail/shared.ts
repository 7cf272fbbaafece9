import type { AgentName, MessageId } from '../names.ts';
import type { CopyRecord, Settlement } from '../ports/journal.ts';
import type { WaitingMessage } from '../ports/mailboxes.ts';
import { LEASE_MS, waiting } from './deliver.ts';
import type { Selection } from './deliver.ts';
import type { Who } from './workspace.ts';

/**
 * A mailbox that an agent reads. `taker`: it is shared, and what this agent is shown there is its own from then on.
 *
 * waiting in the shared mailbox → held there for one reader → settled with its taker: the copy, its proof and what is owed are the
 * taker's. Until then it waits again for all of them if that reader cannot be shown it.
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

/** What waits there for this reader, oldest first. Nobody takes its own words. */
export async function waitingMail({ who, taker }: ReadMailbox, selection: Selection): Promise<WaitingMessage[]> {
  const mail = await waiting(who, selection);
  return taker === undefined ? mail : mail.filter(({ message }) => message.from !== taker);
}

/** What goes into a settlement in this mailbox. */
export function takenBy(taker: AgentName | undefined): Pick<Settlement, 'taker'> {
  return taker === undefined ? {} : { taker };
}

/**
 * Takes the one message of the shared mailbox whose id begins so: its reader asks for it by its id. Nothing happens if another agent was
 * shown it, or is being shown it now.
 */
export async function takeShared({ name, home, shares }: Who, prefix: string): Promise<void> {
  if (shares === undefined || prefix === '') return;
  const { mailboxes, journal } = home;
  await mailboxes.adopt(shares);
  const ids = await journal.idsLike(prefix);
  const id = ids.find((one) => one === prefix) ?? (ids.length === 1 ? ids[0] : undefined);
  const copy = id && (await journal.copy(shares, id));
  if (!copy || (await journal.message(id))?.from === name) return;
  // One that ended before sessions had names of their own.
  if (copy.state === 'settled') return journal.assign(shares, id, name);
  const claim = await claimOf({ name: shares, home }, copy, name);
  const by = { by: 'asked for', agent: name };
  if (claim) await mailboxes.settle(claim, [id], { disposition: 'acknowledged', by, taker: name }, 'shown');
}

/** What this reader was offered there is its own to end; what waits is claimed. Null: another reader has it. */
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

/** To which of its readers a copy of a shared mailbox was offered last. */
export async function offeredTo(shared: Who, id: MessageId): Promise<unknown> {
  const copy = (await shared.home.journal.trace(id))?.copies.find(({ mailbox }) => mailbox === shared.name);
  return copy?.receipts.findLast(({ step }) => step === 'offered')?.evidence['taker'];
}
