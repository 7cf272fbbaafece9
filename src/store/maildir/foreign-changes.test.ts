import { afterEach, beforeEach, expect, it, setSystemTime } from 'bun:test';
import { mkdirSync, renameSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { aMessage, anEntry, bob } from '../../../test/support/mail.ts';
import { leaveFile, openHome } from '../../../test/support/maildir.ts';
import type { OpenHome } from '../../../test/support/maildir.ts';
import type { MessageId } from '../../core/names.ts';
import { ForeignChanges } from './foreign-changes.ts';
import { MaildirFiles } from './files.ts';

/** How long reading a mailbox takes in these tests. */
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

/** Opens a stream of this mailbox. */
async function opens(): Promise<void> {
  await changes.watch(bob, 1000);
  await changes.look(bob);
}

it('streams that open and close do not make the exporter read a huge mailbox each time', async () => {
  await opens();
  for (let n = 0; n < 20; n += 1) {
    changes.unwatch(bob);
    changes.due();
    await opens();
  }
  expect(reads).toBe(1);
  expect(changes.due()).toEqual([bob]);
  // Mail that other programs added meanwhile is found by the look after the rest.
  const { id } = aMessage();
  leaveFile(root, bob, `${id}.json`, '');
  pass(REST_MS);
  expect((await changes.look(bob)).arrived).toEqual([id]);
  expect(reads).toBe(2);
});

it('a new watch of a huge mailbox reports a copy that a reader held when it began and then puts back', async () => {
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

it('the state of a huge mailbox without watchers is dropped when the mailbox has rested', async () => {
  await opens();
  changes.unwatch(bob);
  pass(REST_MS);
  changes.due();
  await opens();
  expect(reads).toBe(2);
});

it('a watch that begins while the journal cannot be read reports only messages that come later', async () => {
  const { message } = await home.mailboxes.put(anEntry());
  const { journal } = home;
  const read = journal.openCopies.bind(journal);
  journal.openCopies = async () => Promise.reject(new Error('it cannot be opened'));
  await changes.watch(bob, 1000).catch(() => {});
  await changes.look(bob).catch(() => {});
  // We moved this one there ourselves meanwhile.
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
