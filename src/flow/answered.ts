import type { Message } from '../protocol/message.ts';
import type { AgentName, MessageId } from '../protocol/names.ts';
import { arrivalOf } from './arrival.ts';
import type { Home } from './workspace.ts';

// Every send reads this file: it imports nothing that is not needed there.

/** What asks for something itself is no answer, unless it says so. */
const ASKING: readonly string[] = ['question', 'assignment', 'approval', 'blocker'];

/**
 * Is this the answer of `reader` to `message`? Usually it says so. Agents also answer by a plain send to the writer: then its place
 * in the exchange, as we worked it out, is right behind.
 */
export function answerIn(message: Message, reader: AgentName, said: Message): boolean {
  if (said.from !== reader || said.parley?.signal !== undefined) return false;
  if (said.thread !== undefined) return said.thread === message.id;
  if (ASKING.includes(said.parley?.intent ?? 'none')) return false;
  const hop = said.parley?.lineage?.hop;
  return hop === (message.parley?.lineage?.hop ?? 0) + 1 && said.to.replace(/^@/, '') === message.from;
}

/**
 * A message that answers another ends what its writer owed for that, if it was entered before; otherwise entering finds the answer.
 * What is still to be shown at a surface ends it when it was. What else hangs on that duty is seen to by whoever looks at it next.
 */
export async function noteAnswer(home: Home, answer: Message, now: number): Promise<void> {
  if (answer.thread === undefined || answer.parley?.signal !== undefined) return;
  const [mailbox, id] = [answer.from as AgentName, answer.thread as MessageId];
  const duty = await home.ledger.duty(mailbox, id);
  if (!duty || duty.ended || duty.kind === 'obligation') return;
  if ((await arrivalOf(home, duty.from, answer)) === 'waiting') return;
  const { endDuty } = await import('./duty.ts');
  await endDuty(home, mailbox, id, 'responded', { reply: answer.id }, now);
}
