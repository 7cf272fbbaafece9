import { replyOutcome } from '../../attention/outcome.ts';
import { isMessageId } from '../../protocol/names.ts';
import type { AgentName } from '../../protocol/names.ts';
import type { Message } from '../../protocol/message.ts';
import type { Home } from '../workspace.ts';
import { endDuty } from '../duty.ts';
import { settleIfOpen } from '../settle.ts';

/** What a surface did with something that was said there: it has shown it, or says why it never will. */
export interface Outcome {
  surface: AgentName;
  refused?: string;
}

/**
 * An answer was shown, or never will be: only now has the event that it answers its end. This is done before the answer itself is
 * settled, so after a crash in between it is shown and ended once more, which changes nothing.
 */
export async function endAnswered(home: Home, said: Message, outcome: Outcome, now: number): Promise<void> {
  const { surface, refused } = outcome;
  const id = said.thread;
  if (!isMessageId(id) || said.parley?.signal !== undefined) return;
  const event = await home.ledger.message(id);
  const who = { name: said.from as AgentName, home };
  const copy = await home.ledger.copy(who.name, id);
  // Who is no reader at this surface has it by mail, and it was ended when that was stored.
  if (!copy || !event?.from.startsWith(`${surface}.`)) return;
  const as = refused === undefined ? replyOutcome(copy.attention.policy) : 'failed';
  const by = { reply: said.id, ...(refused !== undefined && { surface, reason: refused }) };
  const duty = await endDuty(home, who.name, id, as, by, now);
  if (duty?.kind !== 'obligation') await settleIfOpen(who, id, as, by);
}
