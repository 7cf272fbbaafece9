// Processes are killed at every step, and what is left must be what mailbox.ts says. The steps come from a run in which nobody
// dies, so a new one cannot be forgotten.
import * as crash from '../../../test/support/crash.ts';
import { entryFor, homeLike, isFrom } from '../../../test/support/crash.ts';
import { Database } from 'bun:sqlite';
import { describe, expect, it } from 'bun:test';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { drainAway, inboxOf, leaveEntry, listAt, openBrokerHome } from '../../../test/support/c2c-broker.ts';
import type { OpenBroker } from '../../../test/support/c2c-broker.ts';
import type { Said } from '../../../test/support/crash.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { bob, carol } from '../../../test/support/mail.ts';
import { readArchive } from './archive.ts';
import type { AgentName, MessageId } from '../../core/names.ts';

const LEASE = { ms: 30_000 };
const DONE = { disposition: 'acknowledged', by: { drained_by: 'cli_poll' } } as const;
type Order = Parameters<typeof crash.run>[0];
type Steps = [step: string, nth: number][];

const inBroker = (order: Order): Order => ({ ...order, env: { SPOOL: 'c2c-broker', ...order.env } });
const run = async (order: Order): Promise<Said> => crash.run(inBroker(order));
const stepsOf = async (order: Order): Promise<Steps> => crash.stepsOf(inBroker(order));

/** A home in which these keys were sent to a room, each to bob and, quietly, to carol. */
async function homeWith(...keys: string[]): Promise<string> {
  return homeLike(keys.join(), async () => {
    const home = temporaryHome();
    const { mailboxes, close } = await openBrokerHome(home);
    for (const key of keys) await mailboxes.put(entryFor(key));
    await close();
    return home;
  });
}

/** A home in which a message of ours waits for bob, and two of a script that gives no ids and says the same twice. */
async function homeWithNameless(): Promise<string> {
  return homeLike('nameless', async () => {
    const home = await homeWith('k1');
    for (let n = 0; n < 2; n += 1)
      leaveEntry(home, bob, { from_alias: 'script', to_alias: 'bob', content: 'again', ts: 5 });
    return home;
  });
}

/** A home in which a reader gave up half-way: the row waits, and the entry stands in a hand. */
async function homeWithLatecomer(): Promise<string> {
  return homeLike('latecomer', async () => {
    const home = await homeWith('k1');
    const { mailboxes, journal, close } = await openBrokerHome(home);
    const ids = await mailboxes.ids(bob);
    const { owner } = await mailboxes.claim(bob, ids, LEASE);
    await journal.release(bob, owner, ids, null, { because: 'test' });
    drainAway(home, carol);
    await close();
    return home;
  });
}

/** A home after a bad night: a reader and a sender died, another program left a message, and the machine was restarted. */
async function brokenHome(): Promise<string> {
  return homeLike('broken', async () => {
    const home = await homeWith('taken');
    await run({ home, act: 'take', step: 'T2 held' });
    await run({ home, act: 'send', step: 'S1 accepted', keys: ['unfiled'], env: { HEAL: 'no' } });
    leaveEntry(home, bob, { from_alias: 'script', to_alias: 'bob', content: 'hello', ts: 5 });
    const db = new Database(`${home}/ledger.db`);
    db.run("UPDATE meta SET value = 'an earlier start' WHERE name = 'life'");
    db.close();
    return home;
  });
}

async function takeAll({ mailboxes }: OpenBroker, mailbox: AgentName): Promise<MessageId[]> {
  const claim = await mailboxes.claim(mailbox, await mailboxes.ids(mailbox), LEASE);
  const held = claim.copies.map(({ message }) => message.id);
  return (await mailboxes.settle(claim, held, DONE)) ? held : [];
}

function inHand(home: string): string[] {
  return readdirSync(`${home}/held`).filter((name) => name.endsWith('.held'));
}

function saidInRoom(home: string): number {
  const path = `${home}/rooms/dev/history.jsonl`;
  return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n').length : 0;
}

const SEND = await stepsOf({ home: await homeWith(), act: 'send', keys: ['k'] });
const TAKE = await stepsOf({ home: await homeWithNameless(), act: 'take' });
const RELEASE = await stepsOf({ home: await homeWith('k1', 'k2'), act: 'release' });
const WITHDRAW = await stepsOf({ home: await homeWith('k1'), act: 'withdraw' });
const HEAL = await stepsOf({ home: await brokenHome(), act: 'heal' });
const SQUARE = await stepsOf({ home: await homeWithLatecomer(), act: 'square' });

it('every step of the broker code is one at which these tests let a process die', () => {
  const sources = ['mailbox', 'inbox-store', 'send', 'reconcile'];
  const texts = sources.map((name) => readFileSync(`${import.meta.dir}/${name}.ts`, 'utf8'));
  const written = texts.flatMap((text) => [...text.matchAll(/onStep\('([^']+)'\)/g)].map(([, step]) => step));
  const died = [SEND, TAKE, RELEASE, WITHDRAW, HEAL, SQUARE].flat().map(([step]) => step);
  expect(written.length).toBeGreaterThan(20);
  expect(new Set(written)).toEqual(new Set(died));
});

describe('a send to a broker', () => {
  it.each(SEND)('that dies at %s (%i) is in both inboxes after healing, or in none', async (step, nth) => {
    const home = await homeWith();
    expect((await run({ home, act: 'send', step, nth, keys: ['k'] })).died).toBe(true);
    const isAccepted = isFrom(SEND, 'S1 accepted', [step, nth]);
    const opened = await openBrokerHome(home);
    const stands = [bob, carol].map((mailbox) => listAt(inboxOf(home, mailbox)).map((entry) => entry['message_id']));
    expect(stands.map((ids) => ids.length)).toEqual(isAccepted ? [1, 1] : [0, 0]);
    const retry = await opened.mailboxes.put(entryFor('k'));
    expect(retry.first).toBe(!isAccepted);
    expect(await takeAll(opened, bob)).toEqual([retry.message.id]);
    expect(await takeAll(opened, carol)).toEqual([retry.message.id]);
    expect(saidInRoom(home)).toBe(1);
    await opened.close();
  });

  it.each(SEND)('that dies at %s (%i) is made whole by a retry alone, and arrives once', async (step, nth) => {
    const home = await homeWith();
    await run({ home, act: 'send', step, nth, keys: ['k'] });
    const opened = await openBrokerHome(home, { heal: false });
    const { message } = await opened.mailboxes.put(entryFor('k'));
    expect(await takeAll(opened, bob)).toEqual([message.id]);
    await opened.mailboxes.heal();
    expect((await opened.mailboxes.put(entryFor('k'))).message.id).toBe(message.id);
    expect(await opened.mailboxes.ids(bob)).toEqual([]);
    expect(listAt(inboxOf(home, bob))).toEqual([]);
    expect(await takeAll(opened, carol)).toEqual([message.id]);
    await opened.close();
  });

  it.each(SEND)('that dies at %s (%i) is read once, whether the reader heals before or after', async (step, nth) => {
    const home = await homeWith();
    await run({ home, act: 'send', step, nth, keys: ['k'] });
    const opened = await openBrokerHome(home, { heal: false });
    await opened.mailboxes.adopt(bob);
    const before = await takeAll(opened, bob);
    await opened.mailboxes.heal();
    await opened.mailboxes.adopt(bob);
    const all = [...before, ...(await takeAll(opened, bob))];
    expect(all).toHaveLength(isFrom(SEND, 'S1 accepted', [step, nth]) ? 1 : 0);
    expect(listAt(inboxOf(home, bob))).toEqual([]);
    await opened.close();
  });

  it.each(SEND)(
    'that dies at %s (%i), and whose entry another program then takes, comes at most once more under its id',
    async (step, nth) => {
      const home = await homeWith();
      await run({ home, act: 'send', step, nth, keys: ['k'] });
      const taken = drainAway(home, bob).map((entry) => entry['message_id']);
      const opened = await openBrokerHome(home);
      const { message } = await opened.mailboxes.put(entryFor('k'));
      await opened.mailboxes.adopt(bob);
      const again = await takeAll(opened, bob);
      expect(again.length).toBeLessThanOrEqual(1);
      expect(new Set([...taken, ...again])).toEqual(new Set([message.id]));
      // Once the ledger knows that it stood there, nobody brings it back.
      if (isFrom(SEND, 'S3 placed', [step, nth])) expect(again).toEqual([]);
      await opened.close();
    },
  );
});

it('what an older Parley had put in its place and not noted to the end is neither added again nor looked for for ever', async () => {
  const home = await homeWith('k1');
  const db = new Database(`${home}/ledger.db`);
  const { changes } = db.run('INSERT INTO unfiled (seq, mailbox, drafted) SELECT seq, mailbox, 1 FROM copies');
  expect(changes).toBeGreaterThan(0);
  db.close();
  const opened = await openBrokerHome(home);
  await opened.mailboxes.heal();
  expect(await opened.journal.unexportedCount(10)).toBe(0);
  expect(await takeAll(opened, bob)).toHaveLength(1);
  await opened.close();
});

describe('a take from a broker', () => {
  it.each(TAKE)(
    'that dies at %s (%i) loses nothing, and what may have been seen comes again under its id and marked [C2C-20]',
    async (step, nth) => {
      const home = await homeWithNameless();
      const dead = await run({ home, act: 'take', step, nth });
      expect(dead.died).toBe(true);
      expect(JSON.parse(readFileSync(inboxOf(home, bob), 'utf8'))).toBeArray();
      const next = await run({ home, act: 'take' });
      const isSettled = isFrom(TAKE, 'T4 sweep', [step, nth]);
      const wasShown = isFrom(TAKE, 'T3 shown', [step, nth]);
      expect([dead.shown.length, next.shown.length]).toEqual([wasShown ? 3 : 0, isSettled ? 0 : 3]);
      expect(new Set([...dead.shown, ...next.shown].map(({ id }) => id)).size).toBe(3);
      if (wasShown && !isSettled) expect(next.shown.map(({ attempt }) => attempt)).toEqual([1, 1, 1]);
      expect(listAt(inboxOf(home, bob))).toEqual([]);
      expect(inHand(home)).toEqual([]);
      expect((await run({ home, act: 'take' })).shown).toEqual([]);
      const ids = [...dead.shown, ...next.shown].map(({ id }) => id);
      const archived = readArchive(home, 'session-of-bob');
      expect(new Set(archived.map(({ entry }) => entry.message_id))).toEqual(new Set(ids));
      expect(archived.every(({ entry }) => entry.ts > 0)).toBe(true);
    },
  );

  it.each(RELEASE)('that dies at %s (%i) while it gives copies back loses none', async (step, nth) => {
    const home = await homeWith('k1', 'k2');
    await run({ home, act: 'release', step, nth });
    expect((await run({ home, act: 'take' })).settled).toHaveLength(2);
    expect([listAt(inboxOf(home, bob)), inHand(home)]).toEqual([[], []]);
  });

  it('frees its copies at once when its process is killed, and not while it lives', async () => {
    const home = await homeWith('k1');
    const reader = crash.start(inBroker({ home, act: 'hold' }));
    await reader.saying('held');
    expect((await run({ home, act: 'take' })).shown).toEqual([]);
    reader.kill();
    const { held } = await reader.ended;
    expect((await run({ home, act: 'take' })).shown).toEqual([{ id: held[0] as MessageId, attempt: 1 }]);
  });

  it('by two processes at once gives each message to exactly one of them', async () => {
    const keys = Array.from({ length: 40 }, (_, n) => `k${n}`);
    const home = await homeWith(...keys);
    const readers = [1, 2].map(() => crash.start(inBroker({ home, act: 'drain', env: { START_TOGETHER: 'yes' } })));
    await Promise.all(readers.map((reader) => reader.saying('ready')));
    for (const reader of readers) reader.goOn();
    const settled = (await Promise.all(readers.map((reader) => reader.ended))).flatMap((said) => said.settled);
    expect([settled.length, new Set(settled).size]).toEqual([40, 40]);
  });
});

describe('a withdrawal from a broker', () => {
  it.each(WITHDRAW)('that dies at %s (%i) is done, and nobody is given the message', async (step, nth) => {
    const home = await homeWith('k1');
    await run({ home, act: 'withdraw', step, nth });
    expect((await run({ home, act: 'take' })).shown).toEqual([]);
    const opened = await openBrokerHome(home);
    await opened.mailboxes.adopt(bob);
    expect([await opened.mailboxes.peek(bob), listAt(inboxOf(home, bob))]).toEqual([[], []]);
    await opened.close();
  });

  it('of a message whose sender died before it stood anywhere leaves nothing to file', async () => {
    const home = await homeWith();
    await run({ home, act: 'send', step: 'S1 accepted', keys: ['k'] });
    await run({ home, act: 'withdraw', env: { HEAL: 'no' } });
    const opened = await openBrokerHome(home);
    expect([await opened.mailboxes.ids(bob), await opened.mailboxes.ids(carol)]).toEqual([[], []]);
    await opened.close();
  });
});

describe('anyone who puts a broker in order', () => {
  it('after the ledger was lost finds everything again that waited or was in a hand', async () => {
    const home = await homeWithNameless();
    const before = await openBrokerHome(home);
    const [waiting, ...others] = await before.mailboxes.ids(bob);
    await before.close();
    await run({ home, act: 'holdAll', step: 'T2 held', keys: others });
    expect([listAt(inboxOf(home, bob)).length, inHand(home).length]).toEqual([1, 1]);
    for (const name of readdirSync(home)) if (name.startsWith('ledger')) rmSync(`${home}/${name}`, { recursive: true });
    const opened = await openBrokerHome(home);
    expect(new Set(await takeAll(opened, bob))).toEqual(new Set([waiting as MessageId, ...others]));
    expect([await takeAll(opened, bob), inHand(home)]).toEqual([[], []]);
    await opened.close();
  });

  it.each(HEAL)('and dies at %s (%i) leaves it to the next, and nothing is lost or doubled', async (step, nth) => {
    const home = await brokenHome();
    expect((await run({ home, act: 'heal', step, nth })).died).toBe(true);
    const { settled } = await run({ home, act: 'take' });
    expect([settled.length, new Set(settled).size]).toEqual([3, 3]);
    expect([listAt(inboxOf(home, bob)), inHand(home)]).toEqual([[], []]);
  });

  it.each(SQUARE)('and dies at %s (%i) brings what stood in nobody’s hand once', async (step, nth) => {
    const home = await homeWithLatecomer();
    expect(inHand(home)).toHaveLength(1);
    expect((await run({ home, act: 'square', step, nth })).died).toBe(true);
    const opened = await openBrokerHome(home);
    await opened.mailboxes.adopt(bob);
    expect(await takeAll(opened, bob)).toHaveLength(1);
    expect(await takeAll(opened, bob)).toEqual([]);
    expect(inHand(home)).toEqual([]);
    await opened.close();
  });
});
