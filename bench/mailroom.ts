import { mkdirSync, writeFileSync } from 'node:fs';
import type { Message } from '../src/core/message.ts';
import type { MessageId } from '../src/core/names.ts';
import { openSqliteJournal } from '../src/store/journal/sqlite.ts';
import type { SqliteJournal } from '../src/store/journal/sqlite.ts';
import { C2cMailboxes } from '../src/protocols/c2c/mailbox.ts';
import { Maildir } from '../src/store/maildir/maildir.ts';
import { aMessage, bob, copiesFor, LOUD } from '../test/support/mail.ts';

export interface Mailroom {
  root: string;
  mailboxes: Maildir;
  journal: SqliteJournal;
}

export const LEASE = { ms: 30_000 };
export const TAKEN = { disposition: 'acknowledged', by: { by: 'bench' } } as const;

/** A body of the length that agents write to one another. */
export const BODY =
  'The build is red on main since the last merge: the retry test times out. Can you look at it today? '.repeat(2);

/** A home in this folder, opened the way every command opens one. */
export async function openMailroom(root: string, durability: 'normal' | 'full' = 'normal'): Promise<Mailroom> {
  const journal = openSqliteJournal({ path: `${root}/ledger.db`, durability });
  const mailboxes = new Maildir({
    root,
    journal,
    judge: async () => ({ attention: LOUD, lineage: undefined }),
    now: Date.now,
  });
  await mailboxes.heal();
  return { root, mailboxes, journal };
}

/** Lets many messages wait for bob, without the flushes of as many sends. */
export async function fill(room: Mailroom, count: number): Promise<MessageId[]> {
  const messages = manyMessages(count);
  for (const folder of ['tmp', 'new', 'quiet', 'held', 'cur']) {
    mkdirSync(`${room.root}/spool/${bob}/${folder}`, { recursive: true });
  }
  leaveIn(`${room.root}/spool/${bob}/new`, messages);
  for (let at = 0; at < count; at += 500) {
    const entries = messages.slice(at, at + 500).map((message) => ({ message, copies: copiesFor(bob) }));
    await room.journal.adopt(entries, 'stored');
  }
  return messages.map(({ id }) => id);
}

/** The same files in a bare folder, for a floor. */
export function fillFolder(folder: string, count: number): string[] {
  mkdirSync(folder, { recursive: true });
  return leaveIn(folder, manyMessages(count));
}

/** One every few milliseconds, as they would be sent. */
function manyMessages(count: number): Message[] {
  const start = Date.now() - count * 5;
  return Array.from({ length: count }, (_, n) => aMessage({ body: BODY, ts: new Date(start + n * 5).toISOString() }));
}

function leaveIn(folder: string, messages: Message[]): string[] {
  return messages.map((message) => {
    writeFileSync(`${folder}/${message.id}.json`, JSON.stringify(message));
    return `${message.id}.json`;
  });
}

/** Everything on the disk, as sent mail is: a file whose bytes never reached it is cheap to delete. */
export function flushAll(): void {
  Bun.spawnSync(['sync']);
}

/** The inboxes of a broker in which everything is loud. */
export function openInboxes(
  root: string,
  names: ConstructorParameters<typeof C2cMailboxes>[0]['names'],
  onStep: (step: string) => void = () => {},
): { mailboxes: C2cMailboxes; journal: SqliteJournal } {
  const journal = openSqliteJournal({ path: `${root}/ledger.db`, durability: 'normal' });
  const judge = async () => ({ attention: LOUD, lineage: undefined });
  return { mailboxes: new C2cMailboxes({ root, journal, now: Date.now, judge, names, onStep }), journal };
}
