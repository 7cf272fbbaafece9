import type { Message } from '../../protocol/message.ts';
import { answerIn } from '../answered.ts';
import { arrivalOf } from '../arrival.ts';
import { rootOf } from '../conversation.ts';
import type { Item } from './item.ts';

/** How much of an exchange is looked through for an answer. */
const EXCHANGE = 200;

/** What its reader has said to an event. */
export async function answerTo({ who, message }: Item): Promise<Message | undefined> {
  const exchange = await who.home.ledger.exchange(rootOf(message), EXCHANGE);
  return exchange.find((said) => answerIn(message, who.name, said));
}

/** Its reader has answered, and that is still to be shown at a surface. */
export async function isAnswerWaiting(item: Item): Promise<boolean> {
  const said = await answerTo(item);
  return said !== undefined && (await arrivalOf(item.who.home, item.message.from, said)) === 'waiting';
}
