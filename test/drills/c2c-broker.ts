import { statSync } from 'node:fs';
import { inboxOf, openBrokerHome } from '../support/c2c-broker.ts';
import { startScript } from '../support/c2c-python.ts';
import { temporaryHome } from '../support/home.ts';
import { anEntry, bob } from '../support/mail.ts';
import { LEASE, TAKEN } from './at-work.ts';
import type { BrokerPlan } from './broker.child.ts';
import { startChild } from './child.ts';
import { Diary } from './diary.ts';
import { Faults } from './drill.ts';
import type { Drill, Outcome } from './drill.ts';

/** Where there are no scripts to share an inbox with, there is nothing to drill. */
const SKIPPED: Outcome | null = Bun.which('python3') ? null : { counts: { skipped: 'no python3' }, faults: [] };

const start = (plan: BrokerPlan) => startChild('broker.child.ts', plan);

/** Four processes of ours and four plain scripts write into one inbox together. */
export const brokerWriters: Drill = {
  name: 'eight processes write into one broker inbox',
  async run(long) {
    if (SKIPPED) return SKIPPED;
    const each = long ? 200 : 25;
    const root = temporaryHome();
    const lanes = [0, 1, 2, 3];
    const ours = lanes.map((n) => start({ root, act: 'send', count: each, said: `ours ${n}` }));
    const scripts = lanes.map((n) => startScript('add', inboxOf(root, bob), `${each},script ${n} `));
    await Promise.all([...ours, ...scripts].map((one) => one.ready));
    const begin = performance.now();
    for (const one of [...ours, ...scripts]) one.go();
    await Promise.all(ours.map((one) => one.ended));
    await Promise.all(scripts.map((one) => one.told));
    const seconds = (performance.now() - begin) / 1000;
    const facts = (await Promise.all(ours.map((one) => one.said))).flat();
    const longest = Math.round(Math.max(...facts.map((fact) => Number(fact['longest'] ?? 0))));
    const expected = lanes.flatMap((n) => numbered(`ours ${n} `, each).concat(numbered(`script ${n} `, each)));
    return judged(expected, await takenAtOnce(root), {
      'a second': Math.round(expected.length / seconds),
      'longest wait ms': longest,
    });
  },
};

/** Ours and a script write, ours and a script take, all from one inbox at once: each message comes to exactly one of them. */
export const brokerShared: Drill = {
  name: 'ours and scripts share one broker inbox',
  async run(long) {
    if (SKIPPED) return SKIPPED;
    const each = long ? 1000 : 100;
    const root = temporaryHome();
    const path = inboxOf(root, bob);
    const writers = [start({ root, act: 'send', count: each, said: 'ours' })];
    const scripts = [startScript('add', path, `${each},theirs `)];
    const readers = [0, 1].map(() => start({ root, act: 'take', count: 1e9, said: '' }));
    const drainer = startScript('drain until told', path);
    await Promise.all([...writers, ...readers, ...scripts, drainer].map((one) => one.ready));
    for (const one of [...writers, ...scripts, ...readers]) one.go();
    await Promise.all(writers.map((one) => one.ended));
    await Promise.all(scripts.map((one) => one.told));
    for (const reader of readers) reader.stop();
    await Promise.all(readers.map((one) => one.ended));
    drainer.go();
    const theirs = (await drainer.told).flatMap(({ content }) => (typeof content === 'string' ? [content] : []));
    const last = await takenAtOnce(root);
    const byUs = Diary.read(root).flatMap((entry) => (entry.did === 'settled' ? [entry.id] : []));
    const expected = [...numbered('ours ', each), ...numbered('theirs ', each)];
    return judged(expected, [...theirs, ...byUs, ...last], { 'by scripts': theirs.length, 'by us': byUs.length });
  },
};

/** Senders and readers are killed at any moment of their lives. */
export const brokerKills: Drill = {
  name: 'killed at any moment in a broker',
  async run(long, tell) {
    const kills = long ? 500 : 16;
    const root = temporaryHome();
    const died = new Set<number>();
    let turn = 0;
    const lane = async (act: 'send' | 'take'): Promise<void> => {
      while (died.size < kills) {
        turn += 1;
        const child = start({ root, act, count: act === 'send' ? 20 : 50, said: `turn ${turn}`, hurry: true });
        await child.ready;
        await Bun.sleep(Math.random() * 200);
        child.kill();
        if (await child.ended) died.add(child.pid);
        if (died.size % 100 === 0) tell(`${died.size} kills`);
      }
    };
    await Promise.all([lane('send'), lane('send'), lane('take'), lane('take')]);
    const last = await takenAtOnce(root);
    const diary = Diary.read(root);
    const stored = diary.flatMap((entry) => (entry.did === 'stored' ? [entry.key] : []));
    const shown = diary.flatMap((entry) => (entry.did === 'shown' ? [entry] : []));
    const settled = diary.flatMap((entry) => (entry.did === 'settled' ? [entry.id] : []));
    const seen = new Set([...shown.map(({ id }) => id), ...last]);
    const faults = new Faults();
    faults.none(
      stored.filter((said) => !seen.has(said)),
      'stored messages were lost',
    );
    const twice = [...settled, ...last].filter((said, at, all) => all.indexOf(said) !== at);
    faults.none(twice, 'messages were settled twice');
    const unmarked = shown.filter(
      ({ id, attempt }, at) => attempt === 0 && shown.findIndex((one) => one.id === id) < at,
    );
    faults.none(
      unmarked.map(({ id }) => id),
      'messages came again without a mark',
    );
    const again = shown.length - new Set(shown.map(({ id }) => id)).size;
    return {
      counts: {
        kills: died.size,
        stored: stored.length,
        shown: seen.size,
        'shown again': again,
        'settled twice': twice.length,
      },
      faults: faults.found,
    };
  },
};

/** Ten thousand messages of 1 KB are sent one by one and drained at once. The short form does it with a few. */
export const brokerHeap: Drill = {
  name: 'ten thousand messages wait in a broker',
  async run(long) {
    const count = long ? 10_000 : 150;
    const root = temporaryHome();
    const { mailboxes, close } = await openBrokerHome(root);
    const begin = performance.now();
    for (let n = 0; n < count; n += 1) await mailboxes.put(anEntry({ body: `heap ${n}`.padEnd(1000, '.') }));
    const sent = performance.now();
    const size = statSync(inboxOf(root, bob)).size;
    await close();
    const taken = await takenAtOnce(root);
    const drained = performance.now();
    const expected = numbered('heap ', count).map((body) => body.padEnd(1000, '.'));
    return judged(expected, taken, {
      'sends a second': Math.round((count * 1000) / (sent - begin)),
      'drain ms': Math.round(drained - sent),
      MB: Math.round(size / 1e6),
    });
  },
};

function numbered(said: string, count: number): string[] {
  return Array.from({ length: count }, (_, n) => `${said}${n}`);
}

/** Everything that waits, taken by us in one go: what it says. */
async function takenAtOnce(root: string): Promise<string[]> {
  const { mailboxes, close } = await openBrokerHome(root);
  await mailboxes.adopt(bob);
  const claim = await mailboxes.claim(bob, await mailboxes.ids(bob), LEASE);
  const ids = claim.copies.map(({ message }) => message.id);
  if (ids.length > 0 && !(await mailboxes.settle(claim, ids, TAKEN)))
    throw new Error('the last reader lost what it held');
  await close();
  return claim.copies.map(({ message }) => message.body);
}

function judged(expected: string[], arrived: string[], figures: Outcome['counts']): Outcome {
  const seen = new Set(arrived);
  const lost = expected.filter((said) => !seen.has(said));
  const twice = arrived.length - seen.size;
  const faults = new Faults();
  faults.none(lost, 'messages were lost');
  faults.expect(twice === 0, `${twice} messages came twice`);
  faults.expect(seen.size <= expected.length, 'messages came that nobody sent');
  return {
    counts: { sent: expected.length, arrived: arrived.length, twice, lost: lost.length, ...figures },
    faults: faults.found,
  };
}
