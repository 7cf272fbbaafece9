import { afterEach, beforeEach, expect, it, setSystemTime } from 'bun:test';
import { mkdirSync, renameSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { aMessage, anEntry, bob } from '../../../test/support/mail.ts';
import { leaveFile, openHome } from '../../../test/support/maildir.ts';
import type { OpenHome } from '../../../test/support/maildir.ts';
import type { MessageId } from '../../core/names.ts';
import { ForeignChanges } from './foreign-changes.ts';
import { MaildirFiles } from './files.ts';

/** So long it takes to read a mailbox here. */
const READ_MS = 1000;
const REST_MS = 5 * READ_MS;

let root: string;
let home: OpenHome;
let changes: ForeignChanges;
let reads: number;
let now: number;
beforeEach(async () => {
  root = temporaryHome();
  home = await openHome(root);
  reads = 0;
  now = Date.now();
  const { journal } = home;
  const read = journal.openCopies.bind(journal);
  journal.openCopies = async (...page) => {
    reads += 1;
    pass(READ_MS);
    return read(...page);
  };
  changes = new ForeignChanges(new MaildirFiles(root), () => journal);
  pass(READ_MS);
});
afterEach(async () => {
  setSystemTime();
  await home.close();
});

function pass(ms: number): void {
  now += ms;
  setSystemTime(now);
}

/** A stream of this mailbox is opened. */
async function opens(): Promise<void> {
  await changes.watch(bob, 1000);
  await changes.look(bob);
}

it('streams that come and go do not make the exporter read a huge mailbox again and again', async () => {
  await opens();
  for (let n = 0; n < 20; n += 1) {
    changes.unwatch(bob);
    changes.due();
    await opens();
  }
  expect(reads).toBe(1);
  expect(changes.due()).toEqual([bob]);
  // What others brought meanwhile is found by the look that is due after the pause.
  const { id } = aMessage();
  leaveFile(root, bob, `${id}.json`, '');
  pass(REST_MS);
  expect((await changes.look(bob)).arrived).toEqual([id]);
  expect(reads).toBe(2);
});

it('who comes back to a huge mailbox is told of what a reader had in hand then, and puts back', async () => {
  const { message } = await home.mailboxes.put(anEntry());
  await opens();
  changes.unwatch(bob);
  const path = (folder: string): string => `${root}/spool/bob/${folder}/${message.id}.json`;
  mkdirSync(`${root}/spool/bob/held`, { recursive: true });
  renameSync(path('new'), path('held'));
  await opens();
  renameSync(path('held'), path('new'));
  pass(REST_MS);
  expect((await changes.look(bob)).arrived).toEqual([message.id]);
});

it('of a huge mailbox that nobody listens to any more nothing is kept when its pause is over', async () => {
  await opens();
  changes.unwatch(bob);
  pass(REST_MS);
  changes.due();
  await opens();
  expect(reads).toBe(2);
});

it('a watch that begins while the ledger cannot be read tells of what comes later, and only of that', async () => {
  const { message } = await home.mailboxes.put(anEntry());
  const { journal } = home;
  const read = journal.openCopies.bind(journal);
  journal.openCopies = async () => Promise.reject(new Error('it cannot be opened'));
  await changes.watch(bob, 1000).catch(() => {});
  await changes.look(bob).catch(() => {});
  // Brought there by ourselves meanwhile.
  const own = aMessage();
  changes.expect(bob, [own.id]);
  leaveFile(root, bob, `${own.id}.json`, '');
  journal.openCopies = read;
  const arrived = async (): Promise<MessageId[]> => {
    pass(3 * REST_MS);
    return (await changes.look(bob)).arrived;
  };
  expect([await arrived(), await arrived()]).toEqual([[], []]);
  const path = (folder: string): string => `${root}/spool/bob/${folder}/${message.id}.json`;
  mkdirSync(`${root}/spool/bob/held`, { recursive: true });
  renameSync(path('new'), path('held'));
  expect(await arrived()).toEqual([]);
  renameSync(path('held'), path('new'));
  expect(await arrived()).toEqual([message.id]);
});
