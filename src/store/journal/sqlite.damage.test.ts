// The journal may be lost: it is rebuilt from the messages on disk.
import { describe, expect, it } from 'bun:test';
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { run } from '../../../test/support/crash.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { aKey, anEntry, bob, carol, copiesFor, LOUD, QUIET } from '../../../test/support/mail.ts';
import { openHome } from '../../../test/support/maildir.ts';
import type { OpenHome } from '../../../test/support/maildir.ts';
import type { MessageId } from '../../core/names.ts';
import type { Entry } from '../../core/ports/journal.ts';
import { JournalConnection } from './connection.ts';
import { openSqliteJournal } from './sqlite.ts';

const LEASE = { ms: 30_000 };
const DONE = { disposition: 'acknowledged', by: { test: true } } as const;

/** A home with a message in every folder. */
async function fullHome(): Promise<{
  home: string;
  sent: Record<'loud' | 'quiet' | 'held' | 'kept' | 'taken', Entry>;
}> {
  const home = temporaryHome();
  const { mailboxes, close } = await openHome(home);
  const keyed = (attention = LOUD): Entry => anEntry({}, { key: aKey(), copies: [{ mailbox: bob, attention }] });
  const sent = { loud: keyed(), quiet: keyed(QUIET), held: keyed(), kept: keyed(), taken: keyed() };
  for (const entry of Object.values(sent)) await mailboxes.put(entry);
  await mailboxes.claim(bob, [sent.held.message.id], { ...LEASE, bearer: true });
  const claim = await mailboxes.claim(bob, [sent.kept.message.id, sent.taken.message.id], LEASE);
  await mailboxes.settle(claim, [sent.kept.message.id], { ...DONE, keep: true });
  await mailboxes.settle(claim, [sent.taken.message.id], DONE);
  await close();
  return { home, sent };
}

function garble(path: string, from: number, length: number): void {
  const fd = openSync(path, 'r+');
  writeSync(fd, Buffer.alloc(length, 'garbage '), 0, length, from);
  closeSync(fd);
}

async function waiting({ mailboxes }: OpenHome): Promise<MessageId[]> {
  return (await mailboxes.peek(bob)).map(({ message }) => message.id).toSorted();
}

const LOSSES: [how: string, lose: (path: string) => void, isRefusedFirst: boolean][] = [
  ['damaged at its start', (path) => garble(path, 0, 100), true],
  ['damaged all over', (path) => garble(path, 4096, statSync(path).size - 4096), true],
  ['cut to nothing', (path) => truncateSync(path, 0), false],
  ['deleted', (path) => rmSync(path), false],
];

describe('a ledger that was', () => {
  it.each(LOSSES)(
    '%s is rebuilt from the files, and nothing that waited is lost [BC-8]',
    async (_how, lose, isRefusedFirst) => {
      const { home, sent } = await fullHome();
      lose(`${home}/ledger.db`);
      if (isRefusedFirst) await expect(openHome(home)).rejects.toMatchObject({ code: 'storage_failed' });
      const opened = await openHome(home);
      const { loud, quiet, held, kept } = sent;
      expect(await waiting(opened)).toEqual([loud, quiet, held].map(({ message }) => message.id).toSorted());
      expect(readdirSync(`${home}/spool/bob/held`)).toEqual([]);
      expect(readdirSync(`${home}/spool/bob/quiet`)).toEqual([`${quiet.message.id}.json`]);
      expect(await opened.journal.copy(bob, kept.message.id)).toMatchObject({ state: 'settled', keep: true });
      expect(existsSync(`${home}/spool/bob/cur/${kept.message.id}.json`)).toBe(true);
      const claim = await opened.mailboxes.claim(bob, await opened.mailboxes.ids(bob), LEASE);
      expect(claim.copies).toHaveLength(3);
      await opened.close();
    },
  );

  it.each(LOSSES)(
    '%s knows the keys of all messages that are on disk again [BC-10]',
    async (_how, lose, isRefusedFirst) => {
      const { home, sent } = await fullHome();
      lose(`${home}/ledger.db`);
      if (isRefusedFirst) await openHome(home).catch(() => {});
      const opened = await openHome(home);
      const before = await waiting(opened);
      const firstTried = new Date(Date.now() - 60_000).toISOString();
      for (const entry of [sent.loud, sent.quiet, sent.held, sent.kept]) {
        const retry = { ...entry, message: { ...entry.message, id: crypto.randomUUID() as MessageId }, firstTried };
        expect((await opened.mailboxes.put(retry)).message.id).toBe(entry.message.id);
      }
      expect(await waiting(opened)).toEqual(before);
      await opened.close();
    },
  );

  it.each(LOSSES)(
    '%s says of older keys that nobody can tell, and stores nothing [BC-10]',
    async (_how, lose, isRefusedFirst) => {
      const { home, sent } = await fullHome();
      lose(`${home}/ledger.db`);
      if (isRefusedFirst) await openHome(home).catch(() => {});
      const opened = await openHome(home);
      const before = await waiting(opened);
      const firstTried = new Date(Date.now() - 60_000).toISOString();
      await expect(opened.mailboxes.put({ ...sent.taken, firstTried })).rejects.toMatchObject({
        code: 'outcome_unknown',
      });
      expect(await waiting(opened)).toEqual(before);
      expect(readdirSync(`${home}/spool/bob/tmp`)).toEqual([]);
      const young = anEntry({}, { key: aKey(), firstTried: new Date(Date.now() + 1000).toISOString() });
      expect((await opened.mailboxes.put(young)).first).toBe(true);
      await opened.close();
    },
  );

  it('damaged is kept beside the new one, as it was', async () => {
    const { home } = await fullHome();
    garble(`${home}/ledger.db`, 0, 100);
    const damaged = readFileSync(`${home}/ledger.db`);
    const refusal = await openHome(home).catch(String);
    const [kept = ''] = readdirSync(home).filter((name) => name.startsWith('ledger.db.damaged-'));
    expect(refusal).toContain(kept);
    expect(readFileSync(`${home}/${kept}`).equals(damaged)).toBe(true);
    expect(statSync(`${home}/${kept}`).mode & 0o777).toBe(0o600);
  });

  it('damaged under a program that has it open is refused once, and then rebuilt', async () => {
    const { home, sent } = await fullHome();
    const opened = await openHome(home);
    garble(`${home}/ledger.db`, 4096, statSync(`${home}/ledger.db`).size - 4096);
    // The page cache of this connection may still be right, so another connection reads the disk.
    const another = async (): Promise<unknown> =>
      openSqliteJournal({ path: `${home}/ledger.db`, durability: 'normal' }).history({ limit: 10 });
    await expect(another()).rejects.toMatchObject({ code: 'storage_failed' });
    await opened.mailboxes.heal();
    expect(await waiting(opened)).toContain(sent.held.message.id);
    expect((await opened.mailboxes.put(anEntry())).first).toBe(true);
    await opened.close();
  });

  it('never there before is new: an old key counts as a first try', async () => {
    const opened = await openHome(temporaryHome());
    const firstTried = new Date(Date.now() - 60_000).toISOString();
    expect((await opened.mailboxes.put(anEntry({}, { key: aKey(), firstTried }))).first).toBe(true);
    await opened.close();
  });

  it('lost while a message was half published is rebuilt so that every recipient gets it [BC-2]', async () => {
    const home = temporaryHome();
    await (await openHome(home)).close();
    await run({ home, act: 'send', step: 'S3 published one', keys: ['k'] });
    for (const part of ['', '-wal', '-shm']) rmSync(`${home}/ledger.db${part}`, { force: true });
    const opened = await openHome(home);
    const ids = await opened.mailboxes.ids(bob);
    expect(ids).toHaveLength(1);
    expect(await opened.mailboxes.ids(carol)).toEqual(ids);
    await opened.close();
  });
});

it('a journal that another process has already replaced is not moved aside as damaged', async () => {
  const path = `${temporaryHome()}/ledger.db`;
  const slow = new JournalConnection({ path, durability: 'normal' });
  const damage = (): never => {
    // At this moment another process detects the damage, moves the file aside and makes a new one.
    renameSync(path, `${path}.damaged-by-others`);
    openSqliteJournal({ path, durability: 'normal' });
    throw Object.assign(new Error('malformed'), { code: 'SQLITE_CORRUPT' });
  };
  expect(() => slow.read(damage)).toThrow('damaged');
  expect(existsSync(path)).toBe(true);
  expect(readdirSync(dirname(path)).filter((name) => /damaged-\d/.test(name))).toEqual([]);
  slow.close();
});

describe('a journal that is replaced while a program has it open', () => {
  it('is opened again: later writes go to the new one', async () => {
    const home = temporaryHome();
    const path = `${home}/ledger.db`;
    const journal = openSqliteJournal({ path, durability: 'normal' });
    const before = await journal.accept(anEntry());
    renameSync(path, `${path}.moved`);
    const other = openSqliteJournal({ path, durability: 'normal' });
    expect(await journal.message(before.message.id)).toBeNull();
    const after = await journal.accept(anEntry());
    expect(await other.message(after.message.id)).toEqual(after.message);
    await journal.close();
    await other.close();
  });

  it('gets a row for every waiting file again', async () => {
    const home = temporaryHome();
    const opened = await openHome(home);
    const { message } = await opened.mailboxes.put(anEntry());
    for (const part of ['', '-wal', '-shm']) renameSync(`${home}/ledger.db${part}`, `${home}/old.db${part}`);
    await opened.mailboxes.heal();
    expect((await opened.journal.copy(bob, message.id))?.state).toBe('stored');
    await opened.close();
  });
});

describe('while a new journal is being filled', () => {
  it('every recipient of a send under way gets the message, once [BC-2]', async () => {
    const home = temporaryHome();
    const { promise, resolve } = Promise.withResolvers<void>();
    const sender = await openHome(home, { heal: false });
    const accept = sender.journal.accept.bind(sender.journal);
    sender.journal.accept = async (entry) => {
      await promise;
      return accept(entry);
    };
    const entry = anEntry({}, { key: aKey(), copies: copiesFor(bob, carol) });
    const sending = sender.mailboxes.put(entry);
    // The drafts are written and nothing is accepted yet: now another process opens the home for the first time.
    while (!existsSync(`${home}/sending/${entry.message.id}.json`)) await Promise.resolve();
    const reader = await openHome(home);
    expect(await reader.mailboxes.ids(bob)).toEqual([]);
    resolve();
    expect((await sending).copies.map(({ mailbox }) => mailbox)).toEqual([bob, carol]);
    expect(await reader.mailboxes.ids(bob)).toEqual([entry.message.id]);
    expect(await reader.mailboxes.ids(carol)).toEqual([entry.message.id]);
    await sender.close();
    await reader.close();
  });
});
