import type { Duty } from './rules.ts';
import type { Message } from '../message.ts';
import type { DutyPage } from '../ports/obligations.ts';
import type { Copy } from '../ports/journal.ts';
import type { Home, Who } from '../mail/workspace.ts';
import { enterDuties, standOf } from './obligation.ts';
import { isOffered } from './responders.ts';
import type { Attention } from '../attention/attention.ts';
import type { MessageId } from '../names.ts';

/** More than this are not counted: a count of thousands would cost more than the page itself. */
export const COUNTED = 100;

export interface Owed {
  duties: (Duty & { message: Message | null })[];
  /** How many in all; counting stops at a hundred. */
  count: number;
  more: boolean;
}

/** What this agent owes, the oldest first. spec: c2a#duties */
export async function owe(who: Who, page: DutyPage): Promise<Owed> {
  await enterDuties(who.home);
  const found = await who.home.ledger.owed(who.name, { ...page, limit: page.limit + 1 });
  const owed = await withoutOffers(who.home, found.slice(0, page.limit));
  const duties = await stillOpen(who.home, owed);
  const offers = Math.min(found.length, page.limit) - owed.length;
  const count = (await who.home.ledger.owedCount(who.name, COUNTED)) - offers;
  return { duties, count, more: found.length > page.limit };
}

/** What others owe to this agent: what it waits for, the oldest first. spec: c2a#duties */
export async function blocked(who: Who, page: DutyPage): Promise<Owed> {
  await enterDuties(who.home);
  const found = await who.home.ledger.blocking(who.name, { ...page, limit: page.limit + 1 });
  const duties = await stillOpen(who.home, await withoutOffers(who.home, found.slice(0, page.limit)));
  return { duties, count: duties.length, more: found.length > page.limit };
}

/**
 * What is offered to the members of a role may be answered. It is a row only so that the next one is asked in time; whoever claims it
 * owes it. spec: c2a#roles
 */
async function withoutOffers(home: Home, duties: readonly Duty[]): Promise<Duty[]> {
  const owed: Duty[] = [];
  for (const duty of duties) if (!isOffer(duty, await home.ledger.copy(duty.mailbox, duty.id))) owed.push(duty);
  return owed;
}

/** Was this only offered to its reader, as a member of a role, and not claimed? */
export function isOffer({ state, ended }: Duty, copy: Copy | null): boolean {
  return state === 'open' && ended === null && copy !== null && isOffered(copy);
}

async function stillOpen(home: Home, duties: readonly Duty[]): Promise<Owed['duties']> {
  const open: Owed['duties'] = [];
  for (const duty of duties) {
    const message = await home.ledger.message(duty.id);
    if ((await standOf(home, duty, message)) !== 'ended') open.push({ ...duty, message });
  }
  return open;
}

/** How many of the things that a reader owes are looked through. */
const LOOK = 200;

/** What this reader has claimed and still owes. */
export async function claimedBy({ name, home }: Who): Promise<ReadonlySet<MessageId>> {
  const owed = await home.ledger.owed(name, { limit: LOOK });
  return new Set(owed.filter(({ state }) => state === 'claimed').map(({ id }) => id));
}

/** The decision on a copy as its reader reads it: what may be answered must be, once this reader has claimed it. spec: c2a#claims */
export function asOwed(attention: Attention, isClaimed: boolean): Attention {
  return isClaimed && attention.policy === 'may_respond' ? { ...attention, policy: 'must_respond' } : attention;
}
