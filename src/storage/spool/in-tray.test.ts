// In a rush a relay answers when its tray is on disk, before its ledger knows of anything.
import { describe, expect, it } from 'bun:test';
import { existsSync, statSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { openLateHome } from '../../../test/support/late.ts';
import type { OpenLateHome } from '../../../test/support/late.ts';
import { anEntry, bob, carol, copiesFor } from '../../../test/support/mail.ts';
import { openHome } from '../../../test/support/maildir.ts';
import type { MessageId } from '../../protocol/names.ts';
import { SendKey } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { Entry, Ledger } from '../ledger/ledger.ts';

const DONE = { disposition: 'acknowledged', by: { test: true } } as const;

/** As a relay accepts them: each has an id that was made for it. */
function entries(many: number, words = ''): Entry[] {
  return Array.from({ length: many }, (_, n) => anEntry({ body: `number ${n} ${words}` }, { fresh: true }));
}

function idsOf(all: Entry[]): MessageId[] {
  return all.map(({ message }) => message.id);
}

async function inOrder(ledger: Ledger): Promise<MessageId[]> {
  return (await ledger.openCopies(bob, 0, 1000)).map(({ id }) => id);
}

async function rush({ spool }: OpenLateHome, all: Entry[]): Promise<void> {
  await Promise.all(all.map((entry) => spool.put(entry)));
}

async function aRelay(root = temporaryHome(), withinMs = 25): Promise<OpenLateHome & { root: string }> {
  return { ...(await openLateHome(root, { rush: { atOnce: 8, withinMs, unreadMs: 0 } })), root };
}

/** A look at a time until it is so; the test's own time is the limit. */
async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 2));
}

describe('a rush', () => {
  it('is answered before the ledger has it, and whoever asks gets all of it in order', async () => {
    const relay = await aRelay();
    const all = entries(300);
    await rush(relay, all);
    expect(await relay.ledger.newest()).toBe(0);
    expect(existsSync(`${relay.root}/ledger.db.tray`)).toBe(true);
    expect(await relay.spool.ids(bob)).toEqual(idsOf(all));
    expect(await relay.ledger.newest()).toBe(300);
    await relay.close();
  });

  it('is one as well if they come one after the other, each when the one before is answered', async () => {
    const relay = await aRelay(undefined, 60_000);
    const all = entries(20);
    for (const entry of all) await relay.spool.put(entry);
    expect(existsSync(`${relay.root}/ledger.db.tray`)).toBe(true);
    expect(await relay.spool.ids(bob)).toEqual(idsOf(all));
    await relay.close();
  });

  it('is none if there is time between them', async () => {
    const relay = await aRelay(undefined, 1);
    for (const entry of entries(20)) {
      await relay.spool.put(entry);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    expect(await relay.ledger.newest()).toBe(20);
    expect(existsSync(`${relay.root}/ledger.db.tray`)).toBe(false);
    await relay.close();
  });

  it('is seen through every door of the home: no question is answered without it', async () => {
    const relay = await aRelay();
    const all = entries(40);
    await rush(relay, all);
    const [id] = idsOf(all.slice(-1)) as [MessageId];
    expect(await relay.spool.ledger.message(id)).not.toBeNull();
    await rush(relay, entries(20));
    expect(await relay.spool.ledger.waitingCount(bob)).toBe(60);
    await relay.close();
  });

  it('is in the ledger by itself soon after it is over, for every other program', async () => {
    const relay = await aRelay();
    await rush(relay, entries(300));
    await until(async () => (await relay.ledger.newest()) === 300);
    await relay.close();
  });

  it('is not cut short by a relay that looks after its readers, as it does every few seconds', async () => {
    const relay = await aRelay();
    await rush(relay, entries(100));
    await relay.spool.heal();
    expect(await relay.ledger.newest()).toBe(0);
    await relay.close();
  });

  it('is overtaken by nobody: what comes alone after it waits behind it', async () => {
    const relay = await aRelay();
    const all = entries(50);
    const putting = rush(relay, all.slice(0, 49));
    await putting;
    await relay.spool.put(all[49] as Entry);
    expect(await relay.spool.ids(bob)).toEqual(idsOf(all));
    await relay.close();
  });

  it('with two of the same key in it has one message, and both get its id', async () => {
    const relay = await aRelay();
    const key = SendKey.parse('the same');
    await rush(relay, entries(50));
    const [one, other] = await Promise.all([
      relay.spool.put(anEntry({ body: 'once' }, { key, fresh: true })),
      relay.spool.put(anEntry({ body: 'once' }, { key, fresh: true })),
      rush(relay, entries(50)),
    ]);
    expect([one.first, other.first]).toEqual([true, false]);
    expect(other.message.id).toBe(one.message.id);
    expect(await relay.spool.ledger.waitingCount(bob)).toBe(101);
    await relay.close();
  });

  it('is told to those who listen, each message once and in order of its number, also to who comes in between', async () => {
    const relay = await aRelay();
    const heard: number[] = [];
    await rush(relay, entries(100));
    const watch = relay.spool.watch(bob, (mail) => void (mail && heard.push(mail.seq)));
    await rush(relay, entries(100));
    await until(() => heard.length >= 100);
    await relay.spool.flush();
    expect(heard).toEqual(Array.from({ length: heard.length }, (_, n) => 201 - heard.length + n));
    watch.close();
    await relay.close();
  });

  it('of one mailbox waits for nobody who listens to another', async () => {
    const relay = await aRelay();
    const heard: string[] = [];
    const watch = relay.spool.watch(carol, (mail) => void (mail && heard.push(mail.text)));
    await rush(relay, entries(50));
    await relay.spool.put(anEntry({ body: 'for Carol' }, { fresh: true, copies: copiesFor(carol) }));
    await until(() => heard.length === 1);
    expect(heard[0]).toContain('for Carol');
    watch.close();
    await relay.close();
  });

  it('that is larger than the tray makes its senders wait: its log is used again, and nothing is lost or overtaken', async () => {
    const relay = await aRelay();
    const all = entries(800, 'x'.repeat(200 * 1024));
    await rush(relay, all);
    expect(statSync(`${relay.root}/ledger.db.tray`).size).toBeLessThan(72 * 2 ** 20);
    expect(await relay.spool.ids(bob)).toEqual(idsOf(all));
    await relay.close();
  });

  it('leaves no log behind when the relay is closed', async () => {
    const relay = await aRelay();
    await rush(relay, entries(100));
    await relay.close();
    expect(existsSync(`${relay.root}/ledger.db.tray`)).toBe(false);
    const { spool, close } = await openHome(relay.root);
    expect(await spool.ids(bob)).toHaveLength(100);
    await close();
  });
});

it('where somebody reads, a rush goes straight into the ledger: nobody who reads waits for a tray', async () => {
  const { spool, ledger, close } = await openLateHome(temporaryHome());
  await spool.ids(bob);
  await Promise.all(entries(100).map((entry) => spool.put(entry)));
  expect(await ledger.newest()).toBe(100);
  await close();
});

describe('a tray that cannot be entered', () => {
  it('loses nothing: who asks is told, who waits for the ledger’s word too, and it is tried again', async () => {
    const relay = await aRelay();
    const acceptTogether = relay.ledger.acceptTogether.bind(relay.ledger);
    let isFull = true;
    relay.ledger.acceptTogether = (...asked) =>
      isFull ? Promise.reject(new Refusal('storage_failed', 'no room on the disk')) : acceptTogether(...asked);
    await rush(relay, entries(100));
    expect(await relay.spool.ids(bob).catch(String)).toContain('no room');
    const key = SendKey.parse('k');
    expect(await relay.spool.put(anEntry({}, { key })).catch(String)).toContain('no room');
    await until(() => relay.troubles.length > 1);
    isFull = false;
    await until(async () => (await relay.ledger.newest()) === 101);
    const retry = await relay.spool.put(anEntry({}, { key }));
    expect(retry.first).toBe(false);
    await relay.close();
  });
});

describe('a relay that died with something in its tray', () => {
  async function died(all: Entry[]): Promise<string> {
    const root = temporaryHome();
    const child = Bun.spawn([process.execPath, `${import.meta.dir}/../../../test/support/rush.child.ts`, root], {
      stdin: new Blob([JSON.stringify(all)]),
      stdout: 'pipe',
      stderr: 'inherit',
    });
    expect(await new Response(child.stdout).text()).toBe(`${all.length} answered, 0 entered\n`);
    await child.exited;
    expect(existsSync(`${root}/ledger.db.tray`)).toBe(true);
    return root;
  }

  it.each(['a command', 'the next relay'])('loses none of it: %s brings each once, in order [BC-8]', async (who) => {
    const all = entries(300);
    const root = await died(all);
    const opened = who === 'a command' ? await openHome(root) : await openLateHome(root);
    await opened.spool.heal();
    expect(await inOrder(opened.ledger)).toEqual(idsOf(all));
    expect((await opened.spool.ids(bob)).toSorted()).toEqual(idsOf(all).toSorted());
    await opened.close();
    expect(existsSync(`${root}/ledger.db.tray`)).toBe(false);
  });

  it('and with a part of it in the ledger: what was read and forgotten since does not come again', async () => {
    const all = entries(64);
    const root = await died(all);
    const beside = await openHome(root, { heal: false });
    const { sheetsAfter } = await import('./in-tray-log.ts');
    const { life, place } = await beside.ledger.tray();
    const [first] = sheetsAfter(root, life, place);
    await beside.ledger.acceptTogether(first?.entries ?? [], first?.place);
    const early = idsOf(first?.entries ?? []);
    const claim = await beside.spool.claim(bob, early, { ms: 30_000 });
    await beside.spool.settle(claim, early, DONE);
    await beside.ledger.prune({ bodies: Infinity, facts: Infinity });
    expect(await beside.ledger.message(early[0] as MessageId)).toBeNull();
    await beside.spool.heal();
    expect(await inOrder(beside.ledger)).toEqual(idsOf(all).slice(early.length));
    await beside.close();
  });

  it('is left alone by commands as long as it lives', async () => {
    const relay = await aRelay();
    await rush(relay, entries(100));
    const beside = await openHome(relay.root);
    await beside.spool.heal();
    expect(existsSync(`${relay.root}/ledger.db.tray`)).toBe(true);
    await beside.close();
    expect(await relay.spool.ids(bob)).toHaveLength(100);
    await relay.close();
  });
});
