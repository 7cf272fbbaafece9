// What a relay's mailboxes promise beyond the contract: one flush for many sends, files that follow, and changes of other programs detected.
import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { openServerHome } from '../../../test/support/server-home.ts';
import type { OpenServerHome } from '../../../test/support/server-home.ts';
import { aMessage, anEntry, bob, carol, copiesFor, QUIET } from '../../../test/support/mail.ts';
import { leaveFile, openHome } from '../../../test/support/maildir.ts';
import { within } from '../../../test/support/within.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { Mail } from '../../core/ports/journal.ts';
import { openSqliteJournal } from '../journal/sqlite.ts';
import { ExportedMaildir } from './exported-maildir.ts';

const LEASE = { ms: 30_000 };
const DONE = { disposition: 'acknowledged', by: { test: true } } as const;

/** The folders of a mailbox without held/, and all of them. */
const BEGUN = ['cur', 'new', 'quiet', 'tmp'];
const MADE = ['cur', 'held', 'new', 'quiet', 'tmp'];

let home: string;
let here: OpenServerHome;
beforeEach(async () => {
  home = temporaryHome();
  here = await openServerHome(home);
});
afterEach(() => here.close());

function filesOf(mailbox: AgentName, ...folders: string[]): string[] {
  return folders.flatMap((folder) => {
    const path = `${home}/spool/${mailbox}/${folder}`;
    return existsSync(path) ? readdirSync(path) : [];
  });
}

/** A watch that collects the mail it is notified of. */
function watching(mailbox: AgentName): { received: MessageId[]; next(): Promise<Mail>; close(): void } {
  const mails: Mail[] = [];
  const received: MessageId[] = [];
  let notify = (): void => {};
  const watch = here.mailboxes.watch(mailbox, (mail) => {
    if (!mail) throw new Error('an exported maildir always has the mail');
    mails.push(mail);
    received.push(JSON.parse(mail.text).id);
    notify();
  });
  return {
    received,
    async next() {
      while (mails.length === 0) {
        await new Promise<void>((resolve) => {
          notify = resolve;
        });
      }
      return mails.shift() as Mail;
    },
    close: () => watch.close(),
  };
}

it('makes a mailbox without held/ for unflushed files; the first take or durable send makes held/', async () => {
  const folders = (mailbox: AgentName): string[] => readdirSync(`${home}/spool/${mailbox}`).toSorted();
  const { message } = await here.mailboxes.put(anEntry({}, { copies: copiesFor(bob, carol) }));
  await here.mailboxes.flush();
  expect([folders(bob), folders(carol)]).toEqual([BEGUN, BEGUN]);
  await here.mailboxes.claim(bob, [message.id], LEASE);
  const other = await openHome(home);
  await other.mailboxes.put(anEntry({}, { copies: copiesFor(carol) }));
  await other.close();
  expect([folders(bob), folders(carol)]).toEqual([MADE, MADE]);
  expect(filesOf(bob, 'held')).toEqual([`${message.id}.json`]);
});

describe('many puts at once', () => {
  it('share their flushes, and each is answered after one', async () => {
    let flushes = 0;
    const answeredAt: number[] = [];
    const root = temporaryHome();
    const journal = openSqliteJournal({ path: `${root}/ledger.db`, durability: 'normal' });
    const flush = journal.flush.bind(journal);
    journal.flush = async () => {
      await flush();
      flushes += 1;
    };
    const judge = () => Promise.reject(new Error('nobody else is here'));
    const mailboxes = new ExportedMaildir({ root, journal, judge, now: Date.now });
    await Promise.all(
      Array.from({ length: 100 }, async () => {
        await mailboxes.put(anEntry());
        answeredAt.push(flushes);
      }),
    );
    // Puts of one turn of the event loop are one group.
    expect(flushes).toBe(1);
    expect(Math.min(...answeredAt)).toBeGreaterThanOrEqual(1);
    await mailboxes.close();
    await journal.close();
  });

  it('fail with "may or may not be stored" if the flush fails, and later ones are answered', async () => {
    const flush = here.journal.flush.bind(here.journal);
    here.journal.flush = () => Promise.reject(Object.assign(new Error('failed'), { code: 'EIO' }));
    const key = 'one-key' as never;
    const lost = await Promise.allSettled([here.mailboxes.put(anEntry({}, { key })), here.mailboxes.put(anEntry())]);
    expect(lost.map((one) => String((one as PromiseRejectedResult).reason))).toEqual([
      expect.stringContaining('it may or may not be stored'),
      expect.stringContaining('it may or may not be stored'),
    ]);
    here.journal.flush = flush;
    expect((await here.mailboxes.put(anEntry({}, { key }))).first).toBe(false);
    expect((await here.mailboxes.put(anEntry())).first).toBe(true);
  });

  it('wait when too many copies have no file yet, and lose nothing', async () => {
    const root = temporaryHome();
    const journal = openSqliteJournal({ path: `${root}/ledger.db`, durability: 'normal' });
    const judge = () => Promise.reject(new Error('nobody else is here'));
    const mailboxes = new ExportedMaildir({ root, journal, judge, now: Date.now, mostUnexported: 20 });
    let most = 0;
    for (let round = 0; round < 10; round += 1) {
      await Promise.all(Array.from({ length: 20 }, () => mailboxes.put(anEntry())));
      most = Math.max(most, await journal.unexportedCount(1000));
    }
    expect(most).toBeLessThanOrEqual(40);
    expect(await mailboxes.ids(bob)).toHaveLength(200);
    await mailboxes.close();
    await journal.close();
    expect(readdirSync(`${root}/spool/bob/new`)).toHaveLength(200);
  });

  it('are refused one by one: a key conflict does not affect the others', async () => {
    const key = 'one-key' as never;
    const puts = await Promise.allSettled([
      here.mailboxes.put(anEntry({ body: 'one' }, { key })),
      here.mailboxes.put(anEntry({ body: 'other' }, { key })),
      here.mailboxes.put(anEntry()),
    ]);
    expect(puts.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  });
});

describe('the files', () => {
  it('are written without a further call, in the same form and folder as any other', async () => {
    const entry = anEntry({}, { copies: [...copiesFor(bob), { mailbox: carol, attention: QUIET }] });
    // The first copy in a mailbox makes its folders.
    await here.mailboxes.adopt(bob);
    await here.mailboxes.adopt(carol);
    await here.mailboxes.put(entry);
    await within(20_000, async () => filesOf(bob, 'new').length + filesOf(carol, 'quiet').length === 2);
    const path = `${home}/spool/bob/new/${entry.message.id}.json`;
    expect(readFileSync(path, 'utf8')).toBe(JSON.stringify(entry.message));
    expect(statSync(path).mode & 0o777).toBe(0o600);
    await here.mailboxes.flush();
    expect(filesOf(bob, 'tmp')).toEqual([]);
  });

  it('are written even while mail keeps coming', async () => {
    await here.mailboxes.adopt(bob);
    let puts = 0;
    // Fewer than the number of copies at which the exporter stops waiting.
    for (; filesOf(bob, 'new').length === 0 && puts < 1000; puts += 1) {
      await here.mailboxes.put(anEntry());
      await Bun.sleep(5);
    }
    expect(puts).toBeLessThan(1000);
  });

  it('all exist after a flush', async () => {
    await Promise.all(Array.from({ length: 300 }, () => here.mailboxes.put(anEntry())));
    await here.mailboxes.flush();
    expect(filesOf(bob, 'new')).toHaveLength(300);
    expect(await here.journal.unexportedCount(1)).toBe(0);
  });

  it('are not written for copies that were taken before', async () => {
    const { id } = (await here.mailboxes.put(anEntry())).message;
    const claim = await here.mailboxes.claim(bob, [id], LEASE);
    expect(await here.mailboxes.settle(claim, [id], DONE)).toBe(true);
    await here.mailboxes.flush();
    await here.mailboxes.put(anEntry());
    await here.mailboxes.flush();
    expect(filesOf(bob, 'tmp', 'new', 'held', 'cur')).toHaveLength(1);
  });

  it('of other mailboxes are written if one mailbox cannot be written, and the error is reported', async () => {
    mkdirSync(`${home}/spool`, { recursive: true });
    writeFileSync(`${home}/spool/carol`, 'no folder');
    await here.mailboxes.put(anEntry({}, { copies: copiesFor(carol) }));
    await here.mailboxes.put(anEntry());
    await within(20_000, async () => filesOf(bob, 'new').length === 1);
    await here.mailboxes.flush();
    expect(here.troubles.length).toBeGreaterThan(0);
    expect(await here.journal.waitingCount(carol)).toBe(1);
    rmSync(`${home}/spool/carol`);
    await here.mailboxes.flush();
    expect(filesOf(carol, 'new')).toHaveLength(1);
  });

  it('are written by one process only, and by the next one when that ends', async () => {
    const other = await openServerHome(home);
    await other.mailboxes.put(anEntry());
    await other.mailboxes.flush();
    expect(filesOf(bob, 'new')).toHaveLength(1);
    await here.close();
    await other.mailboxes.put(anEntry());
    await other.mailboxes.flush();
    expect(filesOf(bob, 'new')).toHaveLength(2);
    await other.close();
    here = await openServerHome(home);
  });
});

it('a mailbox that cannot be listed is refused, and no caller waits for ever', async () => {
  mkdirSync(`${home}/spool`, { recursive: true });
  writeFileSync(`${home}/spool/carol`, 'no folder');
  await expect(here.mailboxes.adopt(carol)).rejects.toMatchObject({ code: 'storage_failed' });
  const watcher = watching(carol);
  const other = watching(bob);
  const added = aMessage();
  leaveFile(home, bob, `${added.id}.json`, JSON.stringify(added));
  await within(20_000, async () => other.received.includes(added.id));
  watcher.close();
  other.close();
});

describe('other programs in the same home', () => {
  it('find, take and add mail as usual while a relay is open [BC-1]', async () => {
    const sent = (await here.mailboxes.put(anEntry())).message;
    const local = await openHome(home);
    // It has no file yet, so it is read from the journal.
    const claim = await local.mailboxes.claim(bob, [sent.id], LEASE);
    expect(claim.copies.map(({ message }) => message)).toEqual([sent]);
    expect(await local.mailboxes.settle(claim, [sent.id], DONE)).toBe(true);
    const next = (await here.mailboxes.put(anEntry())).message;
    await here.mailboxes.flush();
    await local.mailboxes.adopt(bob);
    expect(await local.mailboxes.peek(bob)).toEqual([{ message: next, quiet: false }]);
    const reply = (await local.mailboxes.put(anEntry())).message;
    expect((await here.mailboxes.ids(bob)).toSorted()).toEqual([next.id, reply.id].toSorted());
    await local.close();
  });

  it('are detected at the next request when they take or add mail [BC-1]', async () => {
    const [taken, left] = [
      (await here.mailboxes.put(anEntry())).message,
      (await here.mailboxes.put(anEntry())).message,
    ];
    await here.mailboxes.flush();
    renameSync(`${home}/spool/bob/new/${taken.id}.json`, `${home}/spool/bob/cur/${taken.id}.json`);
    const added = aMessage();
    leaveFile(home, bob, `${added.id}.json`, JSON.stringify(added));
    expect((await here.mailboxes.ids(bob)).toSorted()).toEqual([left.id, added.id].toSorted());
    expect((await here.journal.copy(bob, taken.id))?.state).toBe('gone');
  });

  it('are detected soon in a watched mailbox, and the watcher gets the mail [BC-B5.4]', async () => {
    const watcher = watching(bob);
    const sent = (await here.mailboxes.put(anEntry())).message;
    expect(JSON.parse((await watcher.next()).text)).toEqual(sent);
    await here.mailboxes.flush();
    const added = aMessage();
    leaveFile(home, bob, `${added.id}.json`, JSON.stringify(added));
    await within(20_000, async () => watcher.received.includes(added.id));
    const local = await openHome(home);
    const third = (await local.mailboxes.put(anEntry())).message;
    await within(20_000, async () => watcher.received.includes(third.id));
    const claim = await local.mailboxes.claim(bob, [third.id], LEASE);
    await within(20_000, async () => filesOf(bob, 'held').length === 1);
    await local.mailboxes.release(claim, [third.id], { because: 'test' });
    rmSync(`${home}/spool/bob/new/${sent.id}.json`);
    await within(20_000, async () => (await here.journal.copy(bob, sent.id))?.state === 'gone');
    // Mail that we moved to new/ ourselves is reported once.
    expect(watcher.received.filter((id) => id === sent.id)).toHaveLength(1);
    watcher.close();
    await local.close();
  });

  it('may add a file that is no message, and no watcher is notified', async () => {
    const watcher = watching(bob);
    await here.mailboxes.adopt(carol);
    leaveFile(home, bob, `${crypto.randomUUID()}.json`, '{"half":');
    const added = aMessage();
    leaveFile(home, bob, `${added.id}.json`, JSON.stringify(added));
    await watcher.next();
    expect(watcher.received).toEqual([added.id]);
    watcher.close();
  });
});

it('a message that another program writes in two steps is detected when it is whole', async () => {
  const watcher = watching(bob);
  const added = aMessage();
  const text = JSON.stringify(added);
  const path = leaveFile(home, bob, `${added.id}.json`, text.slice(0, 20));
  // Long enough for a look that finds the first half, and for the folder's time to be no longer recent.
  await new Promise((resolve) => setTimeout(resolve, 1100));
  writeFileSync(path, text);
  await within(20_000, async () => watcher.received.includes(added.id));
  watcher.close();
});

describe('a watcher', () => {
  it('gets each message once, in order of arrival, with its number and its text', async () => {
    const watcher = watching(bob);
    const sent = await Promise.all(
      Array.from({ length: 50 }, async () => (await here.mailboxes.put(anEntry())).message.id),
    );
    await here.mailboxes.flush();
    const waiting = (await here.journal.waitingCopies(bob, 0, 100)).map(({ seq, text }) => ({ seq, text }));
    const received: Mail[] = [];
    for (const _ of sent) received.push(await watcher.next());
    expect(received).toEqual(waiting);
    // The worker checks watched mailboxes every half second.
    await new Promise((resolve) => setTimeout(resolve, 700));
    expect(watcher.received).toHaveLength(50);
    watcher.close();
  });

  it('gets a message again when it is put back, and gets no quiet ones', async () => {
    const watcher = watching(bob);
    const { id } = (await here.mailboxes.put(anEntry())).message;
    await here.mailboxes.put(anEntry({}, { copies: [{ mailbox: bob, attention: QUIET }] }));
    const claim = await here.mailboxes.claim(bob, [id], LEASE);
    await here.mailboxes.release(claim, [id], { because: 'test' });
    expect(watcher.received).toEqual([id, id]);
    // With a file, too. If the worker looks between the file and `expect`, it may report the message twice, which costs a reader one look.
    await here.mailboxes.flush();
    const again = await here.mailboxes.claim(bob, [id], LEASE);
    await here.mailboxes.release(again, [id], { because: 'test' });
    expect(watcher.received.length).toBeGreaterThanOrEqual(3);
    expect(new Set(watcher.received)).toEqual(new Set([id]));
    watcher.close();
  });
});

it('keeps the journal’s log short under steady load', async () => {
  const body = 'x'.repeat(4000);
  for (let round = 0; round < 80; round += 1) {
    const puts = await Promise.all(Array.from({ length: 100 }, () => here.mailboxes.put(anEntry({ body }))));
    const ids = puts.map(({ message }) => message.id);
    // Taken before they have files: only the log matters here.
    expect(await here.mailboxes.settle(await here.mailboxes.claim(bob, ids, LEASE), ids, DONE)).toBe(true);
  }
  // Twice the length at which the log is restarted. The test writes over 200 MB.
  expect(statSync(`${home}/ledger.db-wal`).size).toBeLessThan(150 * 1024 * 1024);
});

it.if(process.platform === 'linux')('lets the files come second at the processor', async () => {
  await here.mailboxes.put(anEntry());
  // The nineteenth field of a thread's `stat`, counted from its number.
  const niceness = (path: string): number => Number(readFileSync(path, 'utf8').split(') ').at(-1)?.split(' ')[16]);
  const own = niceness('/proc/self/stat');
  const threads = (): (number | null)[] =>
    readdirSync('/proc/self/task').map((thread) => {
      try {
        return niceness(`/proc/self/task/${thread}/stat`);
      } catch {
        // It was listed, and has ended.
        return null;
      }
    });
  await within(20_000, async () => threads().includes(own + 5));
});
