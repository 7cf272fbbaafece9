import { mkdirSync, writeFileSync } from 'node:fs';
import type { Message } from '../../src/core/message.ts';
import type { AgentName, MessageId } from '../../src/core/names.ts';
import { temporaryHome } from '../support/home.ts';
import { aMessage, bob, copiesFor, LOUD, QUIET } from '../support/mail.ts';
import { openHome } from '../support/maildir.ts';

/** A fresh home in which this many messages wait for bob; made without the flushes of as many sends. */
export async function homeWith(count: number): Promise<{ root: string; ids: MessageId[] }> {
  const root = temporaryHome();
  const ids = await addWaiting(root, bob, count, 'new');
  return { root, ids };
}

/** Lets messages wait in a mailbox, with their rows. */
export async function addWaiting(
  root: string,
  mailbox: AgentName,
  count: number,
  folder: 'new' | 'quiet',
  fields: Partial<Message> = {},
): Promise<MessageId[]> {
  const { journal, close } = await openHome(root);
  for (const name of ['tmp', 'new', 'quiet', 'held', 'cur'])
    mkdirSync(`${root}/spool/${mailbox}/${name}`, { recursive: true });
  const messages = Array.from({ length: count }, () => aMessage({ to: `@${mailbox}`, ...fields }));
  for (const message of messages)
    writeFileSync(`${root}/spool/${mailbox}/${folder}/${message.id}.json`, JSON.stringify(message));
  const copies = [{ ...copiesFor(mailbox)[0], mailbox, attention: folder === 'quiet' ? QUIET : LOUD }];
  for (let at = 0; at < count; at += 500) {
    await journal.adopt(
      messages.slice(at, at + 500).map((message) => ({ message, copies })),
      'stored',
    );
  }
  await close();
  return messages.map(({ id }) => id);
}
