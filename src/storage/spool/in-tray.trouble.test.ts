// What a relay answered from its tray is safe, whatever fails and whoever dies.
import { describe, expect, it } from 'bun:test';
import { copyFileSync, existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { openLateHome } from '../../../test/support/late.ts';
import type { OpenLateHome } from '../../../test/support/late.ts';
import { anEntry, bob, carol, copiesFor } from '../../../test/support/mail.ts';
import { leaveFile, openHome } from '../../../test/support/maildir.ts';
import type { MessageId } from '../../protocol/names.ts';
import { SendKey } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { Entry, Ledger } from '../ledger/ledger.ts';
import { LogFile } from '../ledger/log.ts';
import { openSqliteLedger } from '../ledger/sqlite.ts';
import { enterLeftovers } from './in-tray-enter.ts';
import { sheetsAfter, TrayLog } from './in-tray-log.ts';
import { LateMaildir } from './late-maildir.ts';

const FULL = new Refusal('storage_failed', 'no room on the disk');

function entries(many: number, body = 'hello'): Entry[] {
  return Array.from({ length: many }, () => anEntry({ body }, { fresh: true }));
}

function idsOf(all: Entry[]): MessageId[] {
  return all.map(({ message }) => message.id);
}

function aRelay(root = temporaryHome()): Promise<OpenLateHome> {
  return openLateHome(root, { rush: { atOnce: 8, withinMs: 25, unreadMs: 0 } });
}

async function rush({ spool }: OpenLateHome, all = entries(20)): Promise<MessageId[]> {
  await Promise.all(all.map((entry) => spool.put(entry)));
  return idsOf(all);
}

async function inOrder(ledger: Ledger, mailbox = bob): Promise<MessageId[]> {
  return (await ledger.openCopies(mailbox, 0, 1000)).map(({ id }) => id);
}

/** Nothing can be entered until the returned function is called. */
function failing(ledger: Ledger, why: Error = FULL): () => void {
  const real = ledger.acceptTogether.bind(ledger);
  ledger.acceptTogether = () => Promise.reject(why);
  return () => {
    ledger.acceptTogether = real;
  };
}

function takeLedgerAway(root: string): void {
  for (const part of ['', '-wal', '-shm']) {
    if (existsSync(`${root}/ledger.db${part}`))
      renameSync(`${root}/ledger.db${part}`, `${root}/ledger.db.damaged-1${part}`);
  }
}

/** A home in which a relay that is dead now has answered these. */
async function leftIn(root: string, ...sheets: Entry[][]): Promise<void> {
  const ledger = openSqliteLedger({ path: `${root}/ledger.db`, durability: 'normal' });
  await ledger.complete();
  const { life, place } = await ledger.tray();
  const log = new TrayLog(root, life, place);
  for (const sheet of sheets) log.append(sheet);
  await log.flush();
  log.letGo();
  await ledger.close();
}

describe('a tray whose relay died', () => {
  it('is only removed when the ledger that has it was flushed, whoever entered it', async () => {
    const root = temporaryHome();
    await leftIn(root, entries(1));
    const ledger = openSqliteLedger({ path: `${root}/ledger.db`, durability: 'normal' });
    const { life, place } = await ledger.tray();
    const [sheet] = sheetsAfter(root, life, place);
    await ledger.acceptTogether(sheet?.entries ?? [], sheet?.place);
    const flush = ledger.flush.bind(ledger);
    const seen: boolean[] = [];
    ledger.flush = async () => {
      seen.push(existsSync(`${root}/ledger.db.tray`));
      await flush();
    };
    await enterLeftovers(root, ledger);
    expect([seen, existsSync(`${root}/ledger.db.tray`)]).toEqual([[true], false]);
    await ledger.close();
  });

  it('is entered by the next relay before anything new, also if that could not be done at first', async () => {
    const root = temporaryHome();
    const old = entries(3);
    await leftIn(root, old);
    const ledger = openSqliteLedger({ path: `${root}/ledger.db`, durability: 'normal' });
    const mend = failing(ledger);
    const judge = () => Promise.reject(new Error('nobody else is here'));
    const spool = new LateMaildir({ root, ledger, judge, now: Date.now });
    const [late] = entries(1) as [Entry];
    expect(await spool.heal().catch(String)).toContain('no room');
    expect(await spool.ids(bob).catch(String)).toContain('no room');
    expect(await spool.put(late).catch(String)).toContain('no room');
    mend();
    await spool.put(late);
    expect(await spool.ids(bob)).toEqual([...idsOf(old), late.message.id]);
    await spool.close();
    await ledger.close();
  });

  it('is entered before its files are adopted: after a power cut some of them may stand there without a row', async () => {
    const root = temporaryHome();
    const [first] = entries(1) as [Entry];
    const both = anEntry({}, { fresh: true, copies: copiesFor(bob, carol) });
    await leftIn(root, [first, both]);
    leaveFile(root, bob, `${both.message.id}.json`, JSON.stringify(both.message));
    const home = await openHome(root);
    expect(await inOrder(home.ledger)).toEqual(idsOf([first, both]));
    expect(await inOrder(home.ledger, carol)).toEqual(idsOf([both]));
    await home.close();
  });

  it('and belonged to another ledger is kept beside, not thrown away', async () => {
    const root = temporaryHome();
    new TrayLog(root, 'a ledger that is gone', { round: 0, bytes: 0 }).append(entries(1));
    const home = await openHome(root);
    expect(await home.spool.ids(bob)).toEqual([]);
    expect(readdirSync(root).filter((name) => name.startsWith('ledger.db.tray'))).toEqual([
      expect.stringMatching(/^ledger\.db\.tray\.damaged-\d+$/) as unknown as string,
    ]);
    await home.close();
  });
});

it('a tray of which a part reached a fresh ledger is kept beside: the rest of it may be nowhere else', async () => {
  const root = temporaryHome();
  const [first, second] = [entries(2), entries(2)];
  await leftIn(root, first, second);
  const ledger = openSqliteLedger({ path: `${root}/ledger.db`, durability: 'normal' });
  const { life, place } = await ledger.tray();
  const [sheet] = sheetsAfter(root, life, place);
  await ledger.close();
  takeLedgerAway(root);
  const fresh = openSqliteLedger({ path: `${root}/ledger.db`, durability: 'normal' });
  await fresh.acceptTogether(sheet?.entries ?? [], sheet?.place);
  await enterLeftovers(root, fresh);
  const [kept = ''] = readdirSync(root).filter((name) => name.startsWith('ledger.db.tray.damaged-'));
  expect(readFileSync(`${root}/${kept}`, 'utf8')).toContain(idsOf(second)[1] as string);
  await fresh.close();
});

describe('a relay with a disk that fails', () => {
  it('answers again when it is well, after it could not flush the ledger while the tray was full', async () => {
    const relay = await aRelay();
    const flush = relay.ledger.flush.bind(relay.ledger);
    relay.ledger.flush = () => Promise.reject(Object.assign(new Error('input/output error'), { code: 'EIO' }));
    const put = await Promise.allSettled(entries(100, 'x'.repeat(900 * 1024)).map((one) => relay.spool.put(one)));
    expect(put.some(({ status }) => status === 'rejected')).toBe(true);
    relay.ledger.flush = flush;
    const late = await rush(relay, entries(1));
    expect((await relay.spool.ids(bob)).at(-1)).toBe(late[0] as MessageId);
    await relay.close();
  });

  it('leaves to the next what it could not enter at its end', async () => {
    const root = temporaryHome();
    const relay = await aRelay(root);
    failing(relay.ledger);
    const ids = await rush(relay);
    expect(await relay.close().catch(String)).toContain('no room');
    // Whoever still asks the old one does not wait for ever.
    expect(await relay.spool.ledger.newest()).toBe(0);
    await relay.ledger.close();
    const next = await aRelay(root);
    expect(await inOrder(next.ledger)).toEqual(ids);
    await next.close();
  });

  it('writes nothing behind a sheet that could not be flushed: after a power cut it would not be found', async () => {
    const root = temporaryHome();
    const relay = await aRelay(root);
    const real = { ...Object.getOwnPropertyDescriptor(LogFile.prototype, 'flush') };
    LogFile.prototype.flush = () => Promise.reject(Object.assign(new Error('input/output error'), { code: 'EIO' }));
    const { life } = await relay.ledger.tray();
    const doubtful = await Promise.allSettled(entries(10).map((one) => relay.spool.put(one)));
    Object.defineProperty(LogFile.prototype, 'flush', real);
    expect(doubtful.every(({ status }) => status === 'rejected')).toBe(true);
    const ids = await rush(relay);
    const { place } = await relay.ledger.tray();
    const disk = temporaryHome();
    writeFileSync(`${disk}/ledger.db.tray`, readFileSync(`${root}/ledger.db.tray`));
    const found = [...sheetsAfter(disk, life, place)].flatMap(({ entries: all }) => idsOf(all));
    expect(found).toEqual(ids);
    await relay.close();
  });

  it('keeps in its tray what fails for any reason that may be over in a moment', async () => {
    const root = temporaryHome();
    const relay = await aRelay(root);
    const mend = failing(relay.ledger, Object.assign(new Error('too many open files'), { code: 'EMFILE' }));
    const ids = await rush(relay);
    expect(await relay.spool.ids(bob).catch(String)).toContain('too many open files');
    mend();
    expect(await relay.spool.ids(bob)).toEqual(ids);
    expect(existsSync(`${root}/aside/tray`)).toBe(false);
    await relay.close();
  });

  it('sets aside what no ledger can take, and everything else goes on', async () => {
    const root = temporaryHome();
    const relay = await aRelay(root);
    const bad = anEntry({}, { fresh: true, copies: copiesFor(bob, bob) });
    const good = entries(20);
    await rush(relay, [...good.slice(0, 10), bad, ...good.slice(10)]);
    expect(await relay.spool.ids(bob)).toEqual(idsOf(good));
    expect(readdirSync(`${root}/aside/tray`)).toEqual([`${bad.message.id}.json`]);
    expect(relay.troubles.map(String).join(' ')).toContain('was set aside');
    await relay.close();
  });
});

it('what is answered after a damaged ledger was replaced is found by the fresh one', async () => {
  const root = temporaryHome();
  const relay = await aRelay(root);
  await rush(relay);
  takeLedgerAway(root);
  await relay.spool.ledger.newest();
  const ids = await rush(relay);
  const { life, place } = await relay.ledger.tray();
  expect([...sheetsAfter(root, life, place)].flatMap(({ entries: all }) => idsOf(all))).toEqual(ids);
  await relay.close();
});

it.each([
  ['is lost', (root: string) => takeLedgerAway(root)],
  [
    'is put back as it was before',
    (root: string) => {
      takeLedgerAway(root);
      for (const part of ['', '.id']) copyFileSync(`${root}/backup${part}`, `${root}/ledger.db${part}`);
    },
  ],
] as const)(
  'what is answered after the ledger %s, while nothing lay in the tray, is found by whoever comes next',
  async (_what, act) => {
    const root = temporaryHome();
    const relay = await aRelay(root);
    await rush(relay);
    await relay.spool.flush();
    const backup = openSqliteLedger({ path: `${root}/ledger.db`, durability: 'normal' });
    while (backup.moveLog().moved < backup.moveLog().pages) await Bun.sleep(1);
    await backup.close();
    for (const part of ['', '.id']) copyFileSync(`${root}/ledger.db${part}`, `${root}/backup${part}`);
    for (let n = 0; n < 3; n += 1) {
      await rush(relay);
      await relay.spool.flush();
    }
    act(root);
    const ids = await rush(relay);
    // The relay is killed now, and this is what it leaves.
    const disk = temporaryHome();
    for (const part of ['', '-wal', '.id', '.tray'])
      copyFileSync(`${root}/ledger.db${part}`, `${disk}/ledger.db${part}`);
    const next = openSqliteLedger({ path: `${disk}/ledger.db`, durability: 'normal' });
    await enterLeftovers(disk, next);
    expect((await inOrder(next)).slice(-ids.length)).toEqual(ids);
    await next.close();
    await relay.close();
  },
);

describe('who listens', () => {
  it('is told once of everything that lay in a tray, in order, also of what was sent under a key', async () => {
    const relay = await aRelay();
    const heard: number[] = [];
    const watch = relay.spool.watch(bob, (mail) => void (mail && heard.push(mail.seq)));
    await relay.spool.ids(bob);
    // Nobody listens to Carol: hers lie there, and what comes for Bob lies behind them.
    await rush(
      relay,
      entries(20).map((entry) => ({ ...entry, copies: copiesFor(carol) })),
    );
    await rush(relay, [anEntry({}, { key: SendKey.parse('k'), fresh: true }), ...entries(5)]);
    await relay.spool.flush();
    expect(heard).toEqual([21, 22, 23, 24, 25, 26]);
    watch.close();
    await relay.close();
  });

  it('is told of what could not be entered at first, and its sender that it is safe', async () => {
    const relay = await aRelay();
    await rush(relay);
    const mend = failing(relay.ledger);
    const heard: string[] = [];
    const watch = relay.spool.watch(bob, (mail) => void (mail && heard.push(mail.text)));
    const keyed = () => relay.spool.put(anEntry({ body: 'keyed' }, { key: SendKey.parse('k'), fresh: true }));
    expect(await keyed().catch(String)).toContain('it is written down and will be stored later');
    mend();
    await relay.spool.flush();
    expect((await keyed()).first).toBe(false);
    expect(heard.filter((text) => text.includes('keyed'))).toHaveLength(1);
    watch.close();
    await relay.close();
  });
});

it('whatever is answered while a relay is closed is there afterwards', async () => {
  const root = temporaryHome();
  const relay = await aRelay(root);
  await rush(relay, entries(300));
  const closing = relay.spool.close();
  const late = await Promise.allSettled(entries(30).map(async (one) => (await relay.spool.put(one)).message.id));
  await closing;
  await relay.ledger.close();
  const answered = late.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const home = await openHome(root);
  const there = new Set(await inOrder(home.ledger));
  expect(answered.filter((id) => !there.has(id))).toEqual([]);
  await home.close();
});
