import { envelope } from '../../../protocols/c2c/envelope.ts';
import { entryOf } from '../../../protocols/c2c/mail.ts';
import type { C2c } from './c2c.ts';
import { bringIntoOrder, isEmptyInbox, isHeld, isInOrder } from './emptiness.ts';

/** Shows what waits and changes nothing. Only what a dead process left half done is finished first: it waits too. spec: c2c#taking */
export async function peek(c2c: C2c, session: string, json: boolean): Promise<void> {
  const isSound = isInOrder(c2c.root) && !isHeld(c2c.root);
  const entries = isSound && isEmptyInbox(c2c.root, session) ? [] : await waitingIn(c2c, session, isSound);
  if (json) return c2c.sayJson(entries);
  if (entries.length === 0) return c2c.say('(no messages)');
  c2c.say(entries.map((entry) => envelope(entry)).join('\n'));
}

async function waitingIn(c2c: C2c, session: string, isSound: boolean) {
  const reader = await c2c.mailbox(session);
  if (!isSound) await bringIntoOrder(c2c.home);
  const mail = await c2c.home.spool.peek(reader);
  return mail.map(({ message }) => entryOf(reader, message));
}
