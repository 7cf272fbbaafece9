import type { Obligation } from './rules.ts';
import type { Message } from '../message.ts';
import type { ObligationPage } from '../ports/obligations.ts';
import type { Copy } from '../ports/journal.ts';
import type { Home, Who } from '../mail/workspace.ts';
import { enterObligations, obligationState } from './obligation.ts';
import { isOffered } from './responders.ts';
import type { Attention } from '../attention/attention.ts';
import type { MessageId } from '../names.ts';

/** Counting stops at this number: counting thousands would take longer than reading the page. */
export const COUNTED = 100;

export interface Owed {
  obligations: (Obligation & { message: Message | null })[];
  /** How many there are in all. Counting stops at a hundred. */
  count: number;
  more: boolean;
}

/** One page of what this agent owes, the oldest first. spec: c2a#duties */
export async function owe(who: Who, page: ObligationPage): Promise<Owed> {
  await enterObligations(who.home);
  const found = await who.home.journal.owed(who.name, { ...page, limit: page.limit + 1 });
  const owed = await withoutOffers(who.home, found.slice(0, page.limit));
  const obligations = await stillOpen(who.home, owed);
  const offers = Math.min(found.length, page.limit) - owed.length;
  const count = (await who.home.journal.owedCount(who.name, COUNTED)) - offers;
  return { obligations, count, more: found.length > page.limit };
}

/** How many obligations of one page are read. */
const PAGE = 100;

/** All that this agent owes, the oldest first, page by page. */
export async function* allOwed(who: Who): AsyncGenerator<Owed['obligations'][number]> {
  await enterObligations(who.home);
  for (let after: Obligation | undefined, isRead = false; !isRead;) {
    const page = await who.home.journal.owed(who.name, { after, limit: PAGE });
    yield* await stillOpen(who.home, await withoutOffers(who.home, page));
    after = page.at(-1);
    isRead = page.length < PAGE;
  }
}

/** One page of what others owe to this agent, the oldest first. spec: c2a#duties */
export async function blocked(who: Who, page: ObligationPage): Promise<Owed> {
  await enterObligations(who.home);
  const found = await who.home.journal.blocking(who.name, { ...page, limit: page.limit + 1 });
  const obligations = await stillOpen(who.home, await withoutOffers(who.home, found.slice(0, page.limit)));
  return { obligations, count: obligations.length, more: found.length > page.limit };
}

/** The obligations of others that name this agent as their delegate, which it may discharge, the oldest first. */
export async function delegated(who: Who, limit: number): Promise<Owed> {
  await enterObligations(who.home);
  const found = await who.home.journal.delegated(who.name, limit + 1);
  const obligations = await stillOpen(who.home, found.slice(0, limit));
  return { obligations, count: obligations.length, more: found.length > limit };
}

/**
 * Leaves out offers. A message to a role is offered to its members, and only a member that claims it owes the answer. An offer has a row only
 * so that the next member is asked in time. spec: c2a#roles
 */
async function withoutOffers(home: Home, obligations: readonly Obligation[]): Promise<Obligation[]> {
  const owed: Obligation[] = [];
  for (const obligation of obligations)
    if (!isOffer(obligation, await home.journal.copy(obligation.mailbox, obligation.id))) owed.push(obligation);
  return owed;
}

/** Was the message offered to this reader as a member of a role, and not claimed? */
export function isOffer({ state, ended }: Obligation, copy: Copy | null): boolean {
  return state === 'open' && ended === null && copy !== null && isOffered(copy);
}

async function stillOpen(home: Home, obligations: readonly Obligation[]): Promise<Owed['obligations']> {
  const open: Owed['obligations'] = [];
  for (const obligation of obligations) {
    const message = await home.journal.message(obligation.id);
    if ((await obligationState(home, obligation, message)) !== 'ended') open.push({ ...obligation, message });
  }
  return open;
}

/** How many obligations of a reader are searched for claims. */
const LOOK = 200;

/** The ids of the messages that this reader has claimed and still owes. */
export async function claimedBy({ name, home }: Who): Promise<ReadonlySet<MessageId>> {
  const owed = await home.journal.owed(name, { limit: LOOK });
  return new Set(owed.filter(({ state }) => state === 'claimed').map(({ id }) => id));
}

/** The attention of a copy as its reader sees it: after a claim, may_respond becomes must_respond. spec: c2a#claims */
export function asOwed(attention: Attention, isClaimed: boolean): Attention {
  return isClaimed && attention.policy === 'may_respond' ? { ...attention, policy: 'must_respond' } : attention;
}

/** This mail with the policy that holds now: a claimed message must be answered, and a message that is not owed any more may be. */
export async function asOwedNow<T extends { message: Message; attention: Attention }>(
  who: Who,
  mail: readonly T[],
): Promise<T[]> {
  const claimed = await claimedBy(who);
  const now: T[] = [];
  for (const one of mail) {
    const { id } = one.message;
    const isOver = one.attention.policy === 'must_respond' && (await who.home.journal.obligation(who.name, id))?.ended;
    const attention = isOver ? ({ ...one.attention, policy: 'may_respond' } as const) : one.attention;
    now.push({ ...one, attention: asOwed(attention, claimed.has(id)) });
  }
  return now;
}
