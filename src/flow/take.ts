import type { Message } from '../protocol/message.ts';
import type { MessageId } from '../protocol/names.ts';
import type { Evidence } from '../protocol/receipt.ts';
import { LEASE_MS } from './deliver.ts';
import type { Who } from './workspace.ts';

/**
 * Step 4 and 5 in one, for a reader that is shown nothing here: takes one message and ends it as acknowledged. Of many racing
 * callers exactly one gets it; the others, and whoever asks for what is not there, get null.
 */
export async function takeOne(who: Who, id: MessageId, by: Evidence, keep = false): Promise<Message | null> {
  const { spool } = who.home;
  const claim = await spool.claim(who.name, [id], { ms: LEASE_MS });
  const [copy] = claim.copies;
  if (!copy) return null;
  const settled = await spool.settle(claim, [id], { disposition: 'acknowledged', by, keep });
  return settled ? copy.message : null;
}
