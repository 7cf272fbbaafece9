import type { Attention } from '../protocol/attention.ts';
import type { CopyRecord } from '../storage/ledger/ledger.ts';
import type { Home } from './desk.ts';

/** The decision on a copy as its reader reads it: what may be answered must be, once this reader has claimed it. spec: c2a#claims */
export async function asOwed(home: Home, { mailbox, id, attention }: CopyRecord): Promise<Attention> {
  if (attention.policy !== 'may_respond') return attention;
  const duty = await home.ledger.duty(mailbox, id);
  const isClaimed = duty?.state === 'claimed' && duty.ended === null;
  return isClaimed ? { ...attention, policy: 'must_respond' } : attention;
}
