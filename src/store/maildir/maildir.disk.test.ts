// The files of a home, their permissions, and errors of the disk.
import { afterAll, describe, expect, it } from 'bun:test';
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { aMessage, anEntry, bob, carol, copiesFor, QUIET } from '../../../test/support/mail.ts';
import { leaveFile, openHome } from '../../../test/support/maildir.ts';
import type { OpenHome } from '../../../test/support/maildir.ts';
import { TinyDisk } from '../../../test/support/tiny-disk.ts';
import type { MessageId } from '../../core/names.ts';
import { FilesDirectory } from '../directory/files.ts';
import { PartlyShown } from '../../core/disk.ts';

const LEASE = { ms: 30_000 };
const DONE = { disposition: 'acknowledged', by: { test: true } } as const;

async function take({ mailboxes }: OpenHome, ids: MessageId[], keep = false): Promise<MessageId[]> {
  const claim = await mailboxes.claim(bob, ids, LEASE);
  const held = claim.copies.map(({ message }) => message.id);
  return (await mailboxes.settle(claim, held, { ...DONE, keep })) ? held : [];
}

describe('mail that was shown and could not be settled', () => {
  it.each([
    ['fails while it settles', false],
    ['fails while it settles what was shown before', true],
  ])('comes again, marked, if the disk %s', async (_case, before) => {
    const home = temporaryHome();
    const fails = (step: string): void => {
      if (step === (before ? 'T3 settle' : 'T3 shown')) throw Object.assign(new Error('full'), { code: 'ENOSPC' });
    };
    const failing = await openHome(home, { onStep: fails });
    const { id } = (await failing.mailboxes.put(anEntry())).message;
    const claim = await failing.mailboxes.claim(bob, [id], LEASE);
    let shown = 0;
    const settling = failing.mailboxes.settle(claim, [id], DONE, before ? 'shown' : () => (shown += 1));
    await expect(settling).rejects.toThrow('what was shown is not settled and comes again, marked as redelivered');
    expect(shown).toBe(before ? 0 : 1);
    expect((await failing.mailboxes.claim(bob, [id], LEASE)).copies).toMatchObject([{ message: { id }, attempt: 1 }]);
    await failing.close();
  });

  it('waits again, marked, if a part of it was written', async () => {
    const opened = await openHome(temporaryHome());
    const { id } = (await opened.mailboxes.put(anEntry())).message;
    const claim = await opened.mailboxes.claim(bob, [id], LEASE);
    const half = (): never => {
      throw new PartlyShown(Object.assign(new Error('nobody reads'), { code: 'EPIPE' }));
    };
    await expect(opened.mailboxes.settle(claim, [id], DONE, half)).rejects.toMatchObject({ code: 'EPIPE' });
    expect((await opened.mailboxes.claim(bob, [id], LEASE)).copies).toMatchObject([{ attempt: 1 }]);
    await opened.close();
  });
});

describe('on the disk', () => {
  it('a copy is one file in its mailbox’s folders, from tmp to new, and then gone or in cur [BC-7, BC-9, BC-B3.11]', async () => {
    const home = temporaryHome();
    const seen: string[] = [];
    const look = (): void => {
      for (const folder of ['tmp', 'new', 'cur']) {
        if (readdirSync(`${home}/spool/bob/${folder}`).length > 0 && seen.at(-1) !== folder) seen.push(folder);
      }
    };
    const opened = await openHome(home, { onStep: (step) => /^S[2-5]/.test(step) && look() });
    const { message } = await opened.mailboxes.put(anEntry());
    expect(seen).toEqual(['tmp', 'new']);
    expect(readdirSync(`${home}/spool/bob/new`)).toEqual([`${message.id}.json`]);
    const [kept] = await take(opened, [message.id], true);
    expect(readdirSync(`${home}/spool/bob/cur`)).toEqual([`${kept}.json`]);
    const other = (await opened.mailboxes.put(anEntry())).message;
    await take(opened, [other.id]);
    const left = ['tmp', 'new', 'cur', 'held', 'quiet'].flatMap((folder) => readdirSync(`${home}/spool/bob/${folder}`));
    expect(left).toEqual([`${kept}.json`]);
    await opened.close();
  });

  it('a home that is removed while a process uses it is made again at the next look', async () => {
    const home = `${temporaryHome()}/home`;
    mkdirSync(home);
    const opened = await openHome(home);
    rmSync(home, { recursive: true });
    await opened.mailboxes.heal();
    const { message } = await opened.mailboxes.put(anEntry());
    expect(await take(opened, [message.id])).toEqual([message.id]);
    await opened.close();
  });

  it('a message file is its compact JSON and nothing more [BC-B1.2]', async () => {
    const home = temporaryHome();
    const opened = await openHome(home);
    const { message } = await opened.mailboxes.put(anEntry({ body: 'two\nlines, ünï' }));
    expect(readFileSync(`${home}/spool/bob/new/${message.id}.json`, 'utf8')).toBe(JSON.stringify(message));
    await opened.close();
  });

  it('every file is readable by its owner only, and every folder too', async () => {
    const before = process.umask(0o000);
    try {
      const home = temporaryHome();
      const opened = await openHome(home);
      await new FilesDirectory(home, Date.now).register(bob, 'agent');
      await opened.mailboxes.put({
        message: aMessage(),
        copies: [...copiesFor(bob), { mailbox: carol, attention: QUIET }],
      });
      await take(opened, await opened.mailboxes.ids(bob), true);
      await opened.mailboxes.put(anEntry());
      chmodSync(leaveFile(home, bob, 'x.json', '{'), 0o600);
      await opened.close();
      await (await openHome(home, { now: () => Date.now() + 20_000 })).mailboxes.peek(bob);
      const all = readdirSync(home, { recursive: true }) as string[];
      expect(all).toContain('aside/bob');
      const open = all.filter((name) => {
        const { mode } = statSync(`${home}/${name}`);
        return (mode & 0o777) !== ((mode & 0o170000) === 0o040000 ? 0o700 : 0o600);
      });
      expect(open).toEqual([]);
    } finally {
      process.umask(before);
    }
  });

  const traced = Bun.which('strace') ? it : it.skip;
  traced(
    `a file, its folder and the folders above a new mailbox are flushed before the send answers${Bun.which('strace') ? '' : ' (skipped: no strace here)'} [BC-8]`,
    async () => {
      const home = temporaryHome();
      await (await openHome(home)).close();
      const child = `${import.meta.dir}/../../../test/support/crash.child.ts`;
      const calls = ['fsync', 'fdatasync', 'rename', 'renameat', 'renameat2', 'write']
        .map((name) => `?${name}`)
        .join(',');
      const log = `${home}/strace.log`;
      const command = [process.execPath, child, home, 'send', '', '1', 'k'];
      const traced = Bun.spawnSync(['strace', '-f', '-y', '-o', log, '-e', `trace=${calls}`, ...command]);
      expect(traced.exitCode).toBe(0);
      const lines = readFileSync(log, 'utf8').split('\n');
      const at = (pattern: RegExp): number => lines.findIndex((line) => pattern.test(line));
      const order = [
        at(/f(data)?sync\(\d+<[^>]*\/bob\/tmp\/[^>]*\.json>/),
        at(/rename.*\/bob\/tmp\/.*\/bob\/new\//),
        at(/f(data)?sync\(\d+<[^>]*\/bob\/new>/),
        at(/write\(1<.*stored\\":/),
      ];
      expect(order).not.toContain(-1);
      expect(order).toEqual(order.toSorted((a, b) => a - b));
      for (const folder of [/carol\/quiet>/, /spool\/bob>/, /spool>/]) {
        const flushed = lines.findIndex((text) => /f(data)?sync\(/.test(text) && folder.test(text));
        expect(flushed).not.toBe(-1);
        expect(flushed).toBeLessThan(order[3] ?? 0);
      }
    },
  );
});

describe('when the disk refuses a write', () => {
  const disk = new TinyDisk();
  afterAll(() => disk.close());
  const why = disk.why && ` (skipped: ${disk.why})`;
  const onTinyDisk = disk.isExpected ? it : it.skip;
  // Root can write to any folder, except on a read-only mount.
  const onFrozenDisk = disk.isExpected || process.getuid?.() !== 0 ? it : it.skip;

  onTinyDisk(`a full one gives one clear refusal, and loses nothing that was stored${why} [BC-8]`, async () => {
    const home = disk.home('full');
    const opened = await openHome(home);
    const body = 'x'.repeat(20_000);
    const stored: MessageId[] = [];
    for (let n = 0; n < 5; n += 1) stored.push((await opened.mailboxes.put(anEntry({ body }))).message.id);
    const refusals: string[] = [];
    // Every amount of free space from none upwards, so that each step in turn finds the disk full.
    for (let free = 0; free <= 20; free += 1) {
      disk.fill(free * 4096, home);
      try {
        stored.push((await opened.mailboxes.put(anEntry({ body }, { copies: copiesFor(bob, carol) }))).message.id);
      } catch (error) {
        refusals.push((error as { code: string }).code);
        expect((error as Error).message).toMatch(/space/);
      }
    }
    expect(refusals.length).toBeGreaterThan(3);
    expect(new Set(refusals)).toEqual(new Set(['storage_failed']));
    expect(stored.length).toBeGreaterThan(8);
    disk.empty();
    await opened.mailboxes.heal();
    const waiting = await opened.mailboxes.peek(bob);
    expect(waiting.map(({ message }) => message.id).toSorted()).toEqual(stored.toSorted());
    expect(new Set(waiting.map(({ message }) => message.body.length))).toEqual(new Set([body.length]));
    expect(readdirSync(`${home}/spool/bob/tmp`)).toEqual([]);
    expect(readdirSync(`${home}/sending`)).toEqual([]);
    const after = (await opened.mailboxes.put(anEntry({ body }))).message.id;
    expect(await take(opened, [...stored, after])).toEqual([...stored, after]);
    await opened.close();
  });

  onTinyDisk(`a full one may refuse a take, and the message waits on${why} [BC-8]`, async () => {
    const home = disk.home('take');
    const opened = await openHome(home);
    const { id } = (await opened.mailboxes.put(anEntry())).message;
    disk.fill(0);
    const outcome = await take(opened, [id]).catch((error: { code: string }) => error.code);
    disk.empty();
    await opened.close();
    const again = await openHome(home, { now: () => Date.now() + LEASE.ms });
    expect(outcome === 'storage_failed' ? await take(again, [id]) : outcome).toEqual([id]);
    await again.close();
  });

  onFrozenDisk('a read-only one gives one clear refusal, and what was stored is there afterwards', async () => {
    const home = temporaryHome();
    const opened = await openHome(home);
    const { id } = (await opened.mailboxes.put(anEntry())).message;
    const refused = { name: 'Refusal', code: 'storage_failed' };
    const thaw = freeze(home);
    try {
      await expect(opened.mailboxes.put(anEntry())).rejects.toMatchObject(refused);
      await expect(opened.mailboxes.put(anEntry({}, { copies: copiesFor(carol) }))).rejects.toMatchObject(refused);
      await expect(opened.mailboxes.claim(bob, [id], LEASE)).rejects.toMatchObject(refused);
      await expect(new FilesDirectory(home, Date.now).register(bob, 'agent')).rejects.toMatchObject(refused);
      expect((await opened.mailboxes.peek(bob)).map(({ message }) => message.id)).toEqual([id]);
      await opened.close();
      await expect(sendIn(home)).rejects.toMatchObject(refused);
    } finally {
      thaw();
    }
    const again = await openHome(home, { now: () => Date.now() + LEASE.ms });
    expect(await again.mailboxes.ids(bob)).toEqual([id]);
    expect(await take(again, [id])).toEqual([id]);
    await again.close();
  });

  /** Sends as a new process does. */
  async function sendIn(home: string): Promise<void> {
    const opened = await openHome(home);
    try {
      await opened.mailboxes.put(anEntry());
    } finally {
      await opened.close();
    }
  }

  /** Makes a folder read-only, also for processes that have it open. For root this needs a mount. */
  function freeze(folder: string): () => void {
    const isRoot = process.getuid?.() === 0;
    const close = [
      ['mount', '--bind', folder, folder],
      ['mount', '-o', 'remount,bind,ro', folder],
    ];
    const change = (commands: string[][]): void => {
      for (const command of commands) expect(Bun.spawnSync(command).exitCode).toBe(0);
    };
    change(isRoot ? close : [['chmod', '-R', 'a-w', folder]]);
    return () => change(isRoot ? [['umount', folder]] : [['chmod', '-R', 'u+w', folder]]);
  }
});
