import { readMessage } from '../protocol/message.ts';
import type { Message } from '../protocol/message.ts';
import { scopeMatches } from '../protocol/scope.ts';
import type { Who } from './workspace.ts';

const PAGE = 128;
/** More than this never fits into one text. */
const ENOUGH = 128;

/** What a guard keeps for this reader's next own turn in this context, oldest first. Takes nothing. spec: c2a#loops */
export async function laterMail({ name, home }: Who, match: string): Promise<Message[]> {
  const found: Message[] = [];
  for (let after = 0; found.length < ENOUGH;) {
    const page = await home.ledger.shelf(name, after, PAGE, 'kept');
    for (const { seq, text } of page) {
      after = seq;
      const message = readMessage(JSON.parse(text));
      if (message && scopeMatches(message.scope, match)) found.push(message);
    }
    if (page.length < PAGE) break;
  }
  return found;
}
