// Processes are killed at every step, and the remaining files and rows must be what the crash matrix says. The steps are recorded in a
// run without a kill, so no new step can be forgotten.
import { Database } from 'bun:sqlite';
import { describe, expect, it } from 'bun:test';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { entryFor, homeLike, isFrom, run, start, stepsOf } from '../../../test/support/crash.ts';
import type { Said } from '../../../test/support/crash.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { aMessage, bob, carol } from '../../../test/support/mail.ts';
import { leaveFile, openHome } from '../../../test/support/maildir.ts';
import type { OpenHome } from '../../../test/support/maildir.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import { Maildir } from './maildir.ts';
import type { Claim } from '../../core/ports/mailboxes.ts';

const LEASE = { ms: 30_000 };
const DONE = { disposition: 'acknowledged', by: { test: true } } as const;

/** A home with one message per key, sent to bob and, quietly, to carol. */
async function homeWith(...keys: string[]): Promise<string> {
  return homeLike(keys.join(), async () => {
    const home = temporaryHome();
    const { mailboxes, close } = await openHome(home);
    for (const key of keys) await mailboxes.put(entryFor(key));
    await close();
    return home;
  });
}

async function takeAll({ mailboxes }: OpenHome, mailbox: AgentName): Promise<MessageId[]> {
  const claim = await mailboxes.claim(mailbox, await mailboxes.ids(mailbox), LEASE);
  const held = claim.copies.map(({ message }) => message.id);
  return (await mailboxes.settle(claim, held, DONE)) ? held : [];
}

function filesOf(home: string, mailbox: AgentName, ...folders: string[]): string[] {
  return folders.flatMap((folder) => readdirSync(`${home}/spool/${mailbox}/${folder}`));
}

const SEND = await stepsOf({ home: await homeWith(), act: 'send', keys: ['k'] });
const TAKE = await stepsOf({ home: await homeWith('k1', 'k2'), act: 'take' });
const RELEASE = await stepsOf({ home: await homeWith('k1', 'k2'), act: 'release' });
const WITHDRAW = await stepsOf({ home: await homeWith('k1'), act: 'withdraw' });
const RAISE = await stepsOf({ home: await homeWith('k1'), act: 'raise' });
const HEAL = await stepsOf({ home: await brokenHome(), act: 'heal' });
const SQUARE = await stepsOf({ home: await homeWithLatecomer(), act: 'square' });
/** The crash tests of the exported maildir kill a process at this step. */
const KEEP_FILELESS = 'T4 kept';

it('these tests kill a process at every step of the code', () => {
  const sources = ['maildir.ts', 'send.ts', 'take.ts', 'heal.ts', 'files.ts'];
  const texts = sources.map((name) => readFileSync(`${import.meta.dir}/${name}`, 'utf8'));
  const written = texts.flatMap((text) => [...text.matchAll(/[#.]step\('([^']+)'\)/g)].map(([, step]) => step));
  const died = [SEND, TAKE, RELEASE, WITHDRAW, RAISE, HEAL, SQUARE].flat().map(([step]) => step);
  expect(written.length).toBeGreaterThan(15);
  expect(new Set(written)).toEqual(new Set([...died, KEEP_FILELESS]));
});

describe('a send', () => {
  it.each(SEND)(
    'that dies at %s (%i) is in both mailboxes after healing, or in none [BC-2, BC-8]',
    async (step, nth) => {
      const home = await homeWith();
      expect((await run({ home, act: 'send', step, nth, keys: ['k'] })).died).toBe(true);
      const isAccepted = isFrom(SEND, 'S2 accepted', [step, nth]);
      const opened = await openHome(home);
      const copies = [await opened.mailboxes.ids(bob), await opened.mailboxes.ids(carol)];
      expect(copies.map((ids) => ids.length)).toEqual(isAccepted ? [1, 1] : [0, 0]);
      const retry = await opened.mailboxes.put(entryFor('k'));
      expect(retry.first).toBe(!isAccepted);
      if (isAccepted) expect(copies).toEqual([[retry.message.id], [retry.message.id]]);
      expect(await takeAll(opened, bob)).toEqual([retry.message.id]);
      expect(await takeAll(opened, carol)).toEqual([retry.message.id]);
      await opened.close();
    },
  );

  it.each(SEND)(
    'that dies at %s (%i) is made whole by a retry alone, and arrives once [BC-10, BC-B2.5]',
    async (step, nth) => {
      const home = await homeWith();
      await run({ home, act: 'send', step, nth, keys: ['k'] });
      const opened = await openHome(home, { heal: false });
      const { message } = await opened.mailboxes.put(entryFor('k'));
      expect(await takeAll(opened, bob)).toEqual([message.id]);
      await opened.mailboxes.heal();
      expect((await opened.mailboxes.put(entryFor('k'))).message.id).toBe(message.id);
      expect(await opened.mailboxes.ids(bob)).toEqual([]);
      expect(await takeAll(opened, carol)).toEqual([message.id]);
      await opened.close();
    },
  );

  it('that was answered is never lost, and leaves neither draft nor mark', async () => {
    const home = await homeWith();
    const { stored } = await run({ home, act: 'send', keys: ['k'] });
    const opened = await openHome(home);
    expect(await opened.mailboxes.ids(bob)).toEqual(stored);
    expect(filesOf(home, bob, 'tmp', 'quiet', 'held', 'cur')).toEqual([]);
    expect(readdirSync(`${home}/sending`)).toEqual([]);
    await opened.close();
  });

  it('that died before it was accepted leaves drafts, which are swept after an hour', async () => {
    const home = await homeWith();
    await run({ home, act: 'send', step: 'S2 accept', keys: ['k'] });
    expect(filesOf(home, bob, 'tmp')).toHaveLength(1);
    const soon = await openHome(home);
    expect(filesOf(home, bob, 'tmp')).toHaveLength(1);
    await soon.close();
    const later = await openHome(home, { now: () => Date.now() + 61 * 60 * 1000 });
    expect([...filesOf(home, bob, 'tmp'), ...filesOf(home, carol, 'tmp'), ...readdirSync(`${home}/sending`)]).toEqual(
      [],
    );
    await later.close();
  });

  it('that died before it was accepted and was sent again does not come back after a restart [BC-10]', async () => {
    const home = await homeWith();
    await run({ home, act: 'send', step: 'S2 accept', keys: ['k'] });
    const { stored } = await run({ home, act: 'send', keys: ['k'] });
    restart(home);
    const opened = await openHome(home);
    expect(await opened.mailboxes.ids(bob)).toEqual(stored);
    expect(await opened.mailboxes.ids(carol)).toEqual(stored);
    await opened.close();
  });
});

describe('a take', () => {
  it.each(TAKE)(
    'that dies at %s (%i) ends each copy exactly once, and marks what may have been seen [BC-6]',
    async (step, nth) => {
      const home = await homeWith('k1', 'k2');
      const dead = await run({ home, act: 'take', step, nth });
      expect(dead.died).toBe(true);
      const next = await run({ home, act: 'take' });
      const isSettled = isFrom(TAKE, 'T4 sweep', [step, nth]);
      const wasShown = isFrom(TAKE, 'T3 shown', [step, nth]);
      expect([dead.shown.length, next.shown.length]).toEqual([wasShown ? 2 : 0, isSettled ? 0 : 2]);
      expect(next.settled).toHaveLength(isSettled ? 0 : 2);
      // Before the claim no reader can have seen it.
      const begun = isFrom(TAKE, 'T1 claimed', [step, nth]) ? 1 : 0;
      expect(next.shown.map(({ attempt }) => attempt)).toEqual(isSettled ? [] : [begun, begun]);
      expect(new Set([...dead.shown, ...next.shown].map(({ id }) => id)).size).toBe(2);
      expect(filesOf(home, bob, 'tmp', 'new', 'quiet', 'held', 'cur')).toEqual([]);
      expect((await run({ home, act: 'take' })).shown).toEqual([]);
    },
  );

  it.each(TAKE)('with keep that dies at %s (%i) leaves each copy in cur/ in the end [BC-9]', async (step, nth) => {
    const home = await homeWith('k1', 'k2');
    await run({ home, act: 'keep', step, nth });
    await run({ home, act: 'keep' });
    expect(filesOf(home, bob, 'cur')).toHaveLength(2);
    expect(filesOf(home, bob, 'tmp', 'new', 'quiet', 'held')).toEqual([]);
  });

  it.each(RELEASE)('that dies at %s (%i) while it releases copies loses none', async (step, nth) => {
    const home = await homeWith('k1', 'k2');
    await run({ home, act: 'release', step, nth });
    expect((await run({ home, act: 'take' })).settled).toHaveLength(2);
  });

  it('frees its copies at once when its process is killed, and not while it lives [BC-6]', async () => {
    const home = await homeWith('k1');
    const reader = start({ home, act: 'hold' });
    await reader.saying('held');
    expect((await run({ home, act: 'take' })).shown).toEqual([]);
    reader.kill();
    const { held } = await reader.ended;
    expect((await run({ home, act: 'take' })).shown).toEqual([{ id: held[0] as MessageId, attempt: 1 }]);
  });
});

describe('a raise', () => {
  it.each(RAISE)('that dies at %s (%i) can be repeated by any process, and loses nothing', async (step, nth) => {
    const home = await homeWith('k1');
    expect((await run({ home, act: 'raise', step, nth })).died).toBe(true);
    const opened = await openHome(home);
    const ids = await opened.mailboxes.ids(carol);
    expect(ids).toHaveLength(1);
    for (const id of ids) await opened.mailboxes.raise(carol, id);
    expect(filesOf(home, carol, 'new')).toHaveLength(1);
    expect(filesOf(home, carol, 'quiet')).toEqual([]);
    expect(await takeAll(opened, carol)).toEqual(ids);
    await opened.close();
  });
});

describe('a withdrawal', () => {
  it.each(WITHDRAW)('that dies at %s (%i) is complete, and no reader gets the message', async (step, nth) => {
    const home = await homeWith('k1');
    await run({ home, act: 'withdraw', step, nth });
    expect((await run({ home, act: 'take' })).shown).toEqual([]);
    const opened = await openHome(home);
    expect(await opened.mailboxes.peek(bob)).toEqual([]);
    await opened.close();
  });

  it('of a message whose sender died before it was published leaves nothing to publish', async () => {
    const home = await homeWith();
    await run({ home, act: 'send', step: 'S2 accepted', keys: ['k'] });
    await run({ home, act: 'withdraw', env: { HEAL: 'no' } });
    const opened = await openHome(home);
    expect([await opened.mailboxes.ids(bob), await opened.mailboxes.ids(carol)]).toEqual([[], []]);
    await opened.close();
  });
});

/** Makes the journal believe that the machine was restarted, so that every file is checked against its row. */
function restart(home: string): void {
  const db = new Database(`${home}/ledger.db`);
  db.run("UPDATE meta SET value = 'an earlier start' WHERE name = 'life'");
  db.close();
}

/** A home in which a reader and a sender died and another program added a message, before the machine was restarted. */
async function brokenHome(): Promise<string> {
  return homeLike('broken', async () => {
    const home = await homeWith('taken');
    await run({ home, act: 'take', step: 'T2 held' });
    await run({ home, act: 'send', step: 'S2 accepted', keys: ['unpublished'], env: { HEAL: 'no' } });
    const foreign = aMessage();
    leaveFile(home, bob, `${foreign.id}.json`, JSON.stringify(foreign));
    restart(home);
    return home;
  });
}

/** A home in which a reader renamed a file after its lease had ended: the row waits, and the file is in held/. */
async function homeWithLatecomer(): Promise<string> {
  return homeLike('latecomer', async () => {
    const home = await homeWith('k1');
    const { mailboxes, journal, close } = await openHome(home);
    const ids = await mailboxes.ids(bob);
    const { owner } = await mailboxes.claim(bob, ids, LEASE);
    await journal.release(bob, owner, ids, null, { because: 'test' });
    await close();
    return home;
  });
}

describe('a copy that a reader moved too late', () => {
  it.each(SQUARE)('comes once, also if the process that puts it back dies at %s (%i) [BC-6]', async (step, nth) => {
    const home = await homeWithLatecomer();
    expect(filesOf(home, bob, 'held')).toHaveLength(1);
    expect((await run({ home, act: 'square', step, nth })).died).toBe(true);
    const opened = await openHome(home);
    await opened.mailboxes.adopt(bob);
    expect(await takeAll(opened, bob)).toHaveLength(1);
    expect(await takeAll(opened, bob)).toEqual([]);
    expect(filesOf(home, bob, 'tmp', 'new', 'quiet', 'held')).toEqual([]);
    await opened.close();
  });

  it('is left to a reader who claims it while another is about to put it back [BC-6]', async () => {
    const home = await homeWithLatecomer();
    const [reader, other] = [await openHome(home), await openHome(home)];
    const ids = filesOf(home, bob, 'held').map((name) => name.slice(0, -5) as MessageId);
    const claims: Claim[] = [];
    const journal = new Proxy(other.journal, {
      get(target, name: keyof OpenHome['journal']) {
        if (name !== 'copy') return target[name].bind(target);
        return async (...args: Parameters<typeof target.copy>) => {
          const copy = await target.copy(...args);
          claims.push(await reader.mailboxes.claim(bob, ids, LEASE));
          return copy;
        };
      },
    });
    await new Maildir({ ...other.mailboxes.options, journal }).adopt(bob);
    const [claim] = claims;
    expect(claim?.copies).toHaveLength(1);
    expect([filesOf(home, bob, 'held').length, filesOf(home, bob, 'new').length]).toEqual([1, 0]);
    expect(claim && (await reader.mailboxes.settle(claim, ids, DONE))).toBe(true);
    await reader.close();
    await other.close();
  });

  it('is put back by the next look, and its trace says so', async () => {
    const opened = await openHome(await homeWithLatecomer());
    expect(await opened.mailboxes.adopt(bob)).toBe(0);
    const [id] = await opened.mailboxes.ids(bob);
    const receipts = (await opened.journal.trace(id as MessageId))?.copies.find(
      ({ mailbox }) => mailbox === bob,
    )?.receipts;
    expect(receipts?.at(-1)).toMatchObject({
      step: 'released',
      evidence: { because: 'its file was in held/, and nobody held it' },
    });
    await opened.close();
  });
});

describe('healing', () => {
  it.each(HEAL)(
    'that dies at %s (%i) is finished by the next, and everything arrives once [BC-8]',
    async (step, nth) => {
      const home = await brokenHome();
      expect((await run({ home, act: 'heal', step, nth })).died).toBe(true);
      const opened = await openHome(home);
      expect(await takeAll(opened, bob)).toHaveLength(3);
      expect(await takeAll(opened, carol)).toHaveLength(2);
      await opened.mailboxes.heal();
      expect([await opened.mailboxes.ids(bob), await opened.mailboxes.ids(carol)]).toEqual([[], []]);
      expect(await opened.mailboxes.asides()).toEqual([]);
      await opened.close();
    },
  );
});

describe('several processes at once', () => {
  /** Starts the processes, releases them at the same moment, and waits until all have ended. */
  async function together(orders: Parameters<typeof start>[0][]): Promise<Said[]> {
    const children = orders.map((order) => start({ ...order, env: { ...order.env, START_TOGETHER: 'yes' } }));
    await Promise.all(children.map((child) => child.saying('ready')));
    for (const child of children) child.goOn();
    return Promise.all(children.map((child) => child.ended));
  }

  it('read 90 messages, and exactly one of them gets each message [BC-6]', async () => {
    const home = await homeWith(...Array.from({ length: 90 }, (_, n) => `k${n}`));
    const readers = await together([1, 2, 3].map(() => ({ home, act: 'drain' })));
    const shown = readers.flatMap((reader) => reader.shown.map(({ id }) => id));
    expect([shown.length, new Set(shown).size]).toEqual([90, 90]);
    expect(readers.flatMap(({ settled }) => settled)).toHaveLength(90);
  });

  it('send under the same 20 keys, and each key becomes one message [BC-10]', async () => {
    const home = await homeWith();
    const keys = Array.from({ length: 20 }, (_, n) => `k${n}`);
    const senders = await together([1, 2, 3].map(() => ({ home, act: 'send', keys })));
    const [first] = senders;
    expect(senders.map(({ stored }) => stored)).toEqual([1, 2, 3].map(() => first?.stored ?? []));
    const opened = await openHome(home);
    expect((await takeAll(opened, bob)).toSorted()).toEqual((first?.stored ?? []).toSorted());
    expect(filesOf(home, bob, 'tmp')).toEqual([]);
    await opened.close();
  });

  it('make one home at the same time, and no message that they send is lost [BC-8]', async () => {
    for (let round = 0; round < 5; round += 1) {
      const home = temporaryHome();
      const senders = await Promise.all([1, 2, 3, 4].map((n) => run({ home, act: 'send', keys: [`a${n}`, `b${n}`] })));
      const stored = senders.flatMap((sender) => sender.stored).toSorted();
      expect(stored).toHaveLength(8);
      const opened = await openHome(home);
      expect((await opened.mailboxes.ids(bob)).toSorted()).toEqual(stored);
      expect((await opened.mailboxes.ids(carol)).toSorted()).toEqual(stored);
      await opened.close();
    }
  });

  it('write large messages while another reads, and it never sees half of one [BC-8]', async () => {
    const home = await homeWith();
    const opened = await openHome(home);
    const size = 256 * 1024;
    const keys = Array.from({ length: 40 }, (_, n) => `k${n}`);
    const sender = start({ home, act: 'send', keys, env: { BODY: String(size) } });
    const ended = sender.ended.then(() => true);
    const sizes = new Set<number>();
    const look = async (): Promise<void> => {
      for (const { message } of await opened.mailboxes.peek(bob)) sizes.add(message.body.length);
    };
    const aMoment = (): Promise<boolean> => new Promise((resolve) => setImmediate(() => resolve(false)));
    do {
      await look();
    } while (!(await Promise.race([ended, aMoment()])));
    await look();
    expect(await opened.mailboxes.ids(bob)).toHaveLength(40);
    expect([...sizes]).toEqual([size]);
    expect(existsSync(`${home}/aside`)).toBe(false);
    await opened.close();
  });
});

describe('a reader that pauses between its claim and its rename', () => {
  /** A home whose claims pause after their commit until they are resumed. */
  async function pausingHome(
    home: string,
    now: () => number,
  ): Promise<OpenHome & { asleep: Promise<void>; wake: () => void }> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const asleep = Promise.withResolvers<void>();
    const opened = await openHome(home, { now });
    const journal = new Proxy(opened.journal, {
      get(target, name: keyof OpenHome['journal']) {
        if (name !== 'claim') return target[name].bind(target);
        return async (...args: Parameters<typeof target.claim>) => {
          const claimed = await target.claim(...args);
          asleep.resolve();
          await promise;
          return claimed;
        };
      },
    });
    const mailboxes = new Maildir({ ...opened.mailboxes.options, journal });
    return { ...opened, mailboxes, asleep: asleep.promise, wake: resolve };
  }

  it.each([
    ['after the next one has the file', false],
    ['before the next one has the file', true],
  ])('and continues %s loses no message', async (_when, early) => {
    const home = await homeWith('k1');
    let time = Date.now();
    const [slow, next] = [await pausingHome(home, () => time), await pausingHome(home, () => time)];
    const ids = await slow.mailboxes.ids(bob);
    const late = slow.mailboxes.claim(bob, ids, { ...LEASE, bearer: true });
    await slow.asleep;
    time += LEASE.ms;
    await next.mailboxes.heal();
    const claiming = next.mailboxes.claim(bob, ids, LEASE);
    const woken = early ? [slow, next] : [next, slow];
    for (const one of woken) {
      one.wake();
      await (one === slow ? late : claiming);
    }
    let shown = 0;
    expect(await slow.mailboxes.settle(await late, ids, DONE, () => (shown += 1))).toBe(false);
    expect(shown).toBe(0);
    expect((await claiming).copies.map(({ message }) => message.id)).toEqual(ids);
    expect(await next.mailboxes.settle(await claiming, ids, DONE, () => (shown += 1))).toBe(true);
    expect(shown).toBe(1);
    expect(await next.mailboxes.asides()).toEqual([]);
    await slow.close();
    await next.close();
  });
});
