import { readMessage } from '../protocol/message.ts';
import type { Message } from '../protocol/message.ts';
import type { Who } from './desk.ts';

const PAGE = 128;
/** How many quiet copies are looked through. */
const MOST = 1024;

/** What a guard keeps for this reader's next own turn, oldest first. Takes nothing. spec: c2a#loops */
export async function laterMail({ name, home }: Who): Promise<Message[]> {
  const found: Message[] = [];
  for (let after = 0, looked = 0; looked < MOST; looked += PAGE) {
    const page = await home.ledger.shelf(name, after, PAGE, 'digest');
    for (const { seq, text, attention } of page) {
      after = seq;
      const message = attention.reason === 'loop' ? readMessage(JSON.parse(text)) : null;
      if (message) found.push(message);
    }
    if (page.length < PAGE) break;
  }
  return found;
}
