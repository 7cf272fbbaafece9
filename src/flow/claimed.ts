import type { Attention } from '../protocol/attention.ts';
import type { MessageId } from '../protocol/names.ts';
import type { Who } from './workspace.ts';

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
