// Other programs write to the same folders, by their own rules or without rules.
import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { aMessage, anEntry, anId, bob, LOUD, QUIET } from '../../../test/support/mail.ts';
import { leaveFile, openHome } from '../../../test/support/maildir.ts';
import type { OpenHome } from '../../../test/support/maildir.ts';
import type { Message } from '../../core/message.ts';
import type { MessageId } from '../../core/names.ts';

const LEASE = { ms: 30_000 };
const DONE = { disposition: 'acknowledged', by: { test: true } } as const;

describe('in a home that is shared with other programs', () => {
  let home: string;
  let opened: OpenHome;
  let steps: Record<string, () => void>;
  /** How far the clock of the mailboxes is ahead of the files' times. */
  let ahead: number;
  beforeEach(async () => {
    home = temporaryHome();
    steps = {};
    ahead = 0;
    opened = await openHome(home, {
      now: () => Date.now() + ahead,
      onStep: (step) => steps[step]?.(),
      judge: async (_mailbox, message) => (message.to.startsWith('#') ? QUIET : LOUD),
    });
  });
  afterEach(() => opened.close());

  const path = (folder: string, id: string): string => `${home}/spool/bob/${folder}/${id}.json`;
  function leave(message: Message): void {
    leaveFile(home, bob, `${message.id}.json`, JSON.stringify(message));
  }
  async function waiting(): Promise<MessageId[]> {
    return (await opened.mailboxes.peek(bob)).map(({ message }) => message.id);
  }
  async function take(...ids: MessageId[]): Promise<MessageId[]> {
    const claim = await opened.mailboxes.claim(bob, ids, LEASE);
    const held = claim.copies.map(({ message }) => message.id);
    return held.length > 0 && (await opened.mailboxes.settle(claim, held, DONE)) ? held : [];
  }

  it('a message that a plain script wrote is read, even if optional fields are missing [BC-1]', async () => {
    const id = anId();
    leaveFile(home, bob, `${id}.json`, `{"id":"${id}","from":"script","to":"@bob","colour":"red"}`);
    const [copy] = await opened.mailboxes.peek(bob);
    expect(copy?.message).toMatchObject({ id, from: 'script', body: '', priority: 'normal' });
    expect(copy?.message).not.toHaveProperty('colour');
    expect(await take(id)).toEqual([id]);
  });

  it('a message of another program is put into the folder that its attention asks for', async () => {
    const [loud, quiet] = [aMessage(), aMessage({ to: '#dev' })];
    leave(loud);
    leave(quiet);
    expect(await opened.mailboxes.adopt(bob)).toBe(2);
    expect([existsSync(path('new', loud.id)), existsSync(path('quiet', quiet.id))]).toEqual([true, true]);
    expect((await opened.journal.copy(bob, quiet.id))?.attention).toEqual(QUIET);
  });

  describe('another program', () => {
    it('that renames before us wins: we show nothing and record that the copy is gone [BC-6]', async () => {
      const { id } = (await opened.mailboxes.put(anEntry())).message;
      steps['T1 claimed'] = () => renameSync(path('new', id), path('cur', id));
      const claim = await opened.mailboxes.claim(bob, [id], LEASE);
      expect(claim.copies).toEqual([]);
      let shown = 0;
      expect(await opened.mailboxes.settle(claim, [id], DONE, () => (shown += 1))).toBe(false);
      expect(shown).toBe(0);
      const [copy] = (await opened.journal.trace(id))?.copies ?? [];
      expect([copy?.state, copy?.receipts.map(({ step }) => step)]).toEqual(['gone', ['taken_elsewhere']]);
      expect(existsSync(path('cur', id))).toBe(true);
    });

    it('that renames after us loses: the file is not there [BC-6]', async () => {
      const { id } = (await opened.mailboxes.put(anEntry())).message;
      steps['T2 held'] = () => expect(() => renameSync(path('new', id), path('cur', id))).toThrow('ENOENT');
      expect(await take(id)).toEqual([id]);
    });

    it('that took a copy is detected when the sender withdraws it', async () => {
      const { id } = (await opened.mailboxes.put(anEntry())).message;
      renameSync(path('new', id), path('cur', id));
      const copies = await opened.mailboxes.withdraw(id, { withdrawn: true });
      expect(copies.map(({ state }) => state)).toEqual(['gone']);
      expect((await opened.journal.copy(bob, id))?.state).toBe('gone');
    });

    it('that took a copy does not make a retried send store it again [BC-10]', async () => {
      const entry = anEntry();
      await opened.mailboxes.put(entry);
      renameSync(path('new', entry.message.id), path('cur', entry.message.id));
      await opened.mailboxes.put(entry);
      expect(await waiting()).toEqual([]);
    });
  });

  describe('a file that is no message', () => {
    it('is left alone while it may still be being written, and read when it is whole [BC-8]', async () => {
      const message = aMessage();
      const text = JSON.stringify(message);
      leaveFile(home, bob, `${message.id}.json`, text.slice(0, 40));
      expect(await waiting()).toEqual([]);
      expect(await take(message.id)).toEqual([]);
      expect(await opened.mailboxes.adopt(bob)).toBe(0);
      leaveFile(home, bob, `${message.id}.json`, text);
      expect(await waiting()).toEqual([message.id]);
      expect(await take(message.id)).toEqual([message.id]);
    });

    it.each([
      ['half a message', '{"id": "x", "fr'],
      ['nothing', ''],
      ['a list', '[]'],
      ['a message under another id', JSON.stringify(aMessage())],
      ['bytes', '\u0000\u0001\ufffd'],
    ])('but %s is set aside after ten seconds, never given out, and not lost', async (_what, text) => {
      const id = anId();
      leaveFile(home, bob, `${id}.json`, text);
      expect(await take(id)).toEqual([]);
      expect(existsSync(path('new', id))).toBe(true);
      ahead = 11_000;
      expect(await waiting()).toEqual([]);
      expect(await take(id)).toEqual([]);
      const asides = await opened.mailboxes.asides();
      expect(asides).toEqual([expect.stringContaining(id)]);
      expect(readFileSync(asides[0] ?? '', 'utf8')).toBe(text);
    });

    it.each([
      ['what cannot be parsed', '{"id": "x", "fr'],
      ['a message with another id inside', JSON.stringify(aMessage())],
    ])('%s may be half written for exactly ten seconds, and is not listed meanwhile [BC-B3.1]', async (_what, text) => {
      const id = anId();
      const written = Math.floor(Date.now() / 1000);
      utimesSync(leaveFile(home, bob, `${id}.json`, text), written, written);
      let clock = written * 1000 + 9_999;
      const other = await openHome(home, { now: () => clock });
      const look = async (): Promise<unknown[]> => [
        await other.mailboxes.peek(bob),
        existsSync(path('new', id)),
        (await other.mailboxes.asides()).length,
      ];
      expect(await look()).toEqual([[], true, 0]);
      clock += 1;
      expect(await look()).toEqual([[], false, 1]);
      await other.close();
    });

    it('hides no other message', async () => {
      leaveFile(home, bob, `${anId()}.json`, '{');
      const { id } = (await opened.mailboxes.put(anEntry())).message;
      ahead = 11_000;
      expect(await waiting()).toEqual([id]);
      expect(await take(id)).toEqual([id]);
    });

    it('is ignored if its name does not end in .json', async () => {
      for (const name of ['notes.txt', 'x.json.swp', '.hidden', 'a b.json', 'ü.json']) leaveFile(home, bob, name, '{');
      ahead = 11_000;
      expect(await waiting()).toEqual([]);
      expect(readdirSync(`${home}/spool/bob/new`)).toHaveLength(5);
      expect(await opened.mailboxes.asides()).toEqual([]);
    });
  });

  describe('something that is no plain file', () => {
    const secret = JSON.stringify(aMessage({ id: 'link' as MessageId, body: 'secret' }));
    it.each([
      ['a link to a file', (name: string, target: string) => symlinkSync(target, name)],
      ['a dead link', (name: string) => symlinkSync(`${name}.nowhere`, name)],
      ['a link to itself', (name: string) => symlinkSync(name, name)],
      ['a pipe', (name: string) => Bun.spawnSync(['mkfifo', name])],
      ['a folder', (name: string) => mkdirSync(name)],
    ])('such as %s neither hangs nor is followed', async (_what, make) => {
      const target = `${home}/target.json`;
      writeFileSync(target, secret);
      leaveFile(home, bob, 'first.txt', '');
      make(path('new', 'link'), target);
      const { id } = (await opened.mailboxes.put(anEntry())).message;
      expect(await waiting()).toEqual([id]);
      expect(await take('link' as MessageId)).toEqual([]);
      ahead = 11_000;
      expect(await waiting()).toEqual([id]);
      expect(await opened.mailboxes.asides()).toEqual([expect.stringContaining('link')]);
      expect(readFileSync(target, 'utf8')).toBe(secret);
    });
  });

  it('each of a thousand messages is treated as it would be alone', async () => {
    const many = Array.from({ length: 1000 }, (_, n) => aMessage({ ts: new Date(n * 1000).toISOString() }));
    const long = aMessage({ body: 'ü'.repeat(100_000) });
    for (const message of [...many, long]) leave(message);
    leaveFile(home, bob, 'half.json', '{"id":"half","fr');
    leaveFile(home, bob, 'empty.json', '');
    leaveFile(home, bob, 'other.json', JSON.stringify(aMessage()));
    writeFileSync(`${home}/target.json`, JSON.stringify(aMessage({ id: 'link' as MessageId })));
    symlinkSync(`${home}/target.json`, path('new', 'link'));
    Bun.spawnSync(['mkfifo', path('new', 'pipe')]);
    mkdirSync(path('new', 'folder'));
    const first = await opened.mailboxes.peek(bob);
    expect(first.map(({ message }) => message)).toEqual([...many, long]);
    expect(await opened.mailboxes.asides()).toEqual([]);
    ahead = 11_000;
    expect(await waiting()).toEqual([...many, long].map(({ id }) => id));
    const asides = (await opened.mailboxes.asides()).map((one) => one.replace(/^.*\/(\w+)\..*$/, '$1'));
    expect(asides.toSorted()).toEqual(['empty', 'folder', 'half', 'link', 'other', 'pipe']);
  });

  describe('a settled message whose file another program writes again', () => {
    it('is not delivered again, and is set aside at the first claim [BC-10]', async () => {
      const { message } = await opened.mailboxes.put(anEntry());
      expect(await take(message.id)).toEqual([message.id]);
      leave(message);
      expect(await opened.mailboxes.adopt(bob)).toBe(0);
      expect(await take(message.id)).toEqual([]);
      expect(await waiting()).toEqual([]);
      expect(await opened.mailboxes.asides()).toHaveLength(1);
    });
  });

  it('a held copy whose file another program puts back is settled all the same, and does not wait again', async () => {
    const { id } = (await opened.mailboxes.put(anEntry())).message;
    const claim = await opened.mailboxes.claim(bob, [id], LEASE);
    renameSync(path('held', id), path('new', id));
    expect(await opened.mailboxes.settle(claim, [id], DONE)).toBe(true);
    expect(await waiting()).toEqual([]);
  });

  it('an unusual but valid id becomes a file in the mailbox folder, never outside it', async () => {
    for (const id of ['.', '..', '-', '_x.y', 'A'.repeat(128)] as MessageId[]) {
      await opened.mailboxes.put(anEntry({ id }));
      expect(existsSync(path('new', id))).toBe(true);
      expect(await take(id)).toEqual([id]);
    }
    expect(readdirSync(`${home}/spool/bob/new`)).toEqual([]);
    expect(readdirSync(`${home}/spool`)).toEqual(['bob']);
  });

  it('a file from the future is a message like any other', async () => {
    const message = aMessage();
    leave(message);
    utimesSync(path('new', message.id), new Date(), new Date(Date.now() + 1_000_000));
    expect(await take(message.id)).toEqual([message.id]);
  });

  it('a mailbox that is removed by one process can be written by another at once', async () => {
    await opened.mailboxes.put(anEntry());
    const other = await openHome(home);
    await other.mailboxes.remove(bob);
    const { id } = (await opened.mailboxes.put(anEntry())).message;
    expect(await waiting()).toEqual([id]);
    await other.close();
  });
});

describe('a copy that another program took', () => {
  it('is recorded as gone at the next look', async () => {
    const root = temporaryHome();
    const { mailboxes, journal, close } = await openHome(root);
    const { message } = await mailboxes.put(anEntry());
    renameSync(`${root}/spool/bob/new/${message.id}.json`, `${root}/spool/bob/cur/${message.id}.json`);
    await mailboxes.adopt(bob);
    expect(await journal.copy(bob, message.id)).toMatchObject({ state: 'gone' });
    await close();
  });

  it('is not given to a reader who read it while it waited', async () => {
    const root = temporaryHome();
    const { mailboxes, journal, close } = await openHome(root);
    const { message } = await mailboxes.put(anEntry());
    const other = (await mailboxes.put(anEntry())).message;
    const read = new Map((await mailboxes.peek(bob)).map((one) => [one.message.id, one.message]));
    renameSync(`${root}/spool/bob/new/${message.id}.json`, `${root}/spool/bob/cur/${message.id}.json`);
    const claim = await mailboxes.claim(bob, [message.id, other.id], { ms: 1000 }, read);
    expect(claim.copies.map((copy) => copy.message)).toEqual([other]);
    expect(await journal.copy(bob, message.id)).toMatchObject({ state: 'gone' });
    await close();
  });

  it('can be taken again if that program puts it back, marked as a redelivery', async () => {
    const root = temporaryHome();
    const { mailboxes, close } = await openHome(root);
    const { message } = await mailboxes.put(anEntry());
    const [here, there] = [`${root}/spool/bob/new/${message.id}.json`, `${root}/spool/bob/cur/${message.id}.json`];
    renameSync(here, there);
    await mailboxes.adopt(bob);
    renameSync(there, here);
    const claim = await mailboxes.claim(bob, [message.id], { ms: 1000 });
    expect(claim.copies).toMatchObject([{ message: { id: message.id }, attempt: 1 }]);
    await close();
  });

  it('is not confused with a copy that is accepted but not published yet', async () => {
    const root = temporaryHome();
    const { mailboxes, journal, close } = await openHome(root);
    const { message } = await mailboxes.put(anEntry());
    renameSync(`${root}/spool/bob/new/${message.id}.json`, `${root}/spool/bob/tmp/${message.id}.json`);
    await mailboxes.adopt(bob);
    expect(await journal.copy(bob, message.id)).toMatchObject({ state: 'stored' });
    await close();
  });
});
