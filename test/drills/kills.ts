import { readdirSync } from 'node:fs';
import type { AgentName } from '../../src/core/names.ts';
import { temporaryHome } from '../support/home.ts';
import { bob, carol } from '../support/mail.ts';
import { openHome } from '../support/maildir.ts';
import { LEASE, TAKEN } from './at-work.ts';
import { Diary } from './diary.ts';
import type { Entry } from './diary.ts';
import { Faults } from './drill.ts';
import type { Drill, Outcome } from './drill.ts';
import { startChild } from './child.ts';
import { addWaiting } from './mailroom.ts';
import type { WorkPlan } from './worker.child.ts';

const SEND_STEPS = [
  'S1 draft',
  'S1 written',
  'S1 linked one',
  'S2 accept',
  'S2 accepted',
  'S3 publish',
  'S3 published one',
  'S4 flushed one',
  'S5 stored',
  'H publish',
  'H put back',
];
const TAKE_STEPS = [
  'T1 claim',
  'T1 claimed',
  'T2 held',
  'T3 settle',
  'T3 shown',
  'T4 sweep',
  'T4 swept',
  'H adopt',
  'H put back',
];

/** About how long a process lives that nobody kills. */
const LIFE_MS = 120;

/** How a process died: at a named step, or at any moment. */
type Death = string;
const ANY_MOMENT: Death = 'any moment';
/** What one reader holds that nobody kills. */
const KEPT = 3;

/**
 * Senders under the same keys, readers, a foreign writer and a foreign taker; every sender and reader is killed, except one
 * reader who has its hands full from the beginning to the end.
 */
function killing(name: string, deaths: 'at steps' | 'at any moment', long: number, short: number): Drill {
  return {
    name,
    async run(isLong, tell) {
      const kills = isLong ? long : short;
      const root = temporaryHome();
      await addWaiting(root, bob, KEPT, 'new');
      const keeper = startChild('holder.child.ts', { root });
      await keeper.ready;
      const strangers = (['leave', 'take'] as const).map((act) => startChild('stranger.child.ts', { root, act }));
      const lanes = [0, 1, 2, 3].map((lane) => new Lane(root, lane, deaths));
      const died = new Map<number, Death>();
      await Promise.all(
        lanes.map(async (lane) => {
          while (died.size < kills) {
            await lane.once(died);
            if (died.size % 100 === 0) tell(`${died.size} kills`);
          }
        }),
      );
      for (const stranger of strangers) stranger.stop();
      await Promise.all(strangers.map((stranger) => stranger.ended));
      const atTheEnd = { bob: await takeAll(root, bob), carol: await takeAll(root, carol) };
      keeper.go();
      await keeper.ended;
      const isKept = (await keeper.said).some(({ held, kept }) => held === KEPT && kept === true);
      return judged(root, died, atTheEnd.carol, isKept);
    },
  };
}

export const killsAtSteps = killing('killed at every step of send and take', 'at steps', 1000, 30);
export const killsAtAnyMoment = killing('killed at any moment', 'at any moment', 1000, 20);

/** One process after the other. Even lanes send, odd ones take; the two senders use the same keys at the same time. */
class Lane {
  #turn = 0;

  constructor(
    readonly root: string,
    readonly lane: number,
    readonly deaths: 'at steps' | 'at any moment',
  ) {}

  async once(died: Map<number, Death>): Promise<void> {
    const act = this.lane % 2 === 0 ? 'send' : 'take';
    const steps = act === 'send' ? SEND_STEPS : TAKE_STEPS;
    const step = this.deaths === 'at steps' ? steps[(this.#turn + this.lane) % steps.length] : undefined;
    const plan: WorkPlan = {
      root: this.root,
      act,
      from: this.#turn * 3,
      count: this.deaths === 'at steps' ? 6 : 3,
      step,
      nth: 1 + Math.floor(Math.random() * 3),
    };
    this.#turn += 1;
    const child = startChild('worker.child.ts', plan);
    if (!step) {
      // Anywhere in its life, from its start on.
      await Bun.sleep(Math.random() * LIFE_MS);
      child.kill();
    }
    if (await child.ended) died.set(child.pid, step ?? ANY_MOMENT);
  }
}

/** What still waits when all is over, taken by us. */
async function takeAll(root: string, mailbox: AgentName): Promise<string[]> {
  const { mailboxes, close } = await openHome(root);
  const diary = new Diary(root);
  await mailboxes.adopt(mailbox);
  const claim = await mailboxes.claim(mailbox, await mailboxes.ids(mailbox), LEASE);
  const ids = claim.copies.map(({ message }) => message.id);
  const done = await mailboxes.settle(claim, ids, TAKEN, () => {
    if (mailbox === bob)
      diary.write(...claim.copies.map(({ message, attempt }) => ({ did: 'shown' as const, id: message.id, attempt })));
  });
  if (!done) throw new Error('the last reader lost what it held');
  if (mailbox === bob) diary.write(...ids.map((id) => ({ did: 'settled' as const, id })));
  diary.close();
  await close();
  return ids;
}

/** Holds the diary against what was promised. */
function judged(root: string, died: Map<number, Death>, carols: string[], isKept: boolean): Outcome {
  const entries = Diary.read(root);
  const elsewhere = new Set(readdirSync(`${root}/elsewhere`).map((name) => name.slice(0, -5)));
  const shown = groupedById(entries, 'shown');
  const settled = groupedById(entries, 'settled');
  const faults = new Faults();
  faults.expect(isKept, 'a live reader lost what it held');

  const answered = entries.filter((entry) => entry.did === 'stored' || entry.did === 'left');
  const lost = new Set(answered.map(({ id }) => id).filter((id) => !shown.has(id) && !elsewhere.has(id)));
  faults.none(lost, 'acknowledged messages were lost');
  const sent = new Set(entries.flatMap((entry) => (entry.did === 'stored' ? [entry.id] : [])));
  const atCarols = new Set(carols);
  faults.none(
    [...sent].filter((id) => !atCarols.has(id)),
    'messages never came to the second mailbox',
  );

  const ids = new Map<string, Set<string>>();
  for (const entry of entries) {
    if (entry.did === 'stored') ids.set(entry.key, (ids.get(entry.key) ?? new Set()).add(entry.id));
  }
  faults.none(
    [...ids].filter(([, of]) => of.size > 1).map(([key]) => key),
    'keys have two ids',
  );
  faults.none(
    [...settled].filter(([, of]) => of.length > 1).map(([id]) => id),
    'copies were settled twice',
  );
  faults.none(
    [...shown.keys()].filter((id) => elsewhere.has(id) && settled.has(id)),
    'copies were taken here and elsewhere',
  );

  const again = redeliveries(entries, shown, died, faults);
  const random = again.filter((pid) => died.get(pid) === ANY_MOMENT).length;
  const kills = died.size;
  // Of a few kills two may meet that short moment; only of many can a share be told.
  const allowed = kills < 100 ? kills : Math.round((3 * kills) / 1000);
  faults.expect(random <= allowed, `${random} of ${kills} readers killed at any moment let a copy come again`);
  return {
    counts: {
      kills,
      places: new Set(died.values()).size,
      acknowledged: new Set(answered.map(({ id }) => id)).size,
      lost: lost.size,
      shown: shown.size,
      elsewhere: elsewhere.size,
      'came again': again.length,
      'settled twice': [...settled.values()].filter((of) => of.length > 1).length,
    },
    faults: faults.found,
  };
}

/** The readers whose copies came again: each must have died after it began to print and before it settled. */
function redeliveries(
  entries: Entry[],
  shown: Map<string, { at: number; entry: Entry }[]>,
  died: Map<number, Death>,
  faults: Faults,
): number[] {
  const lastDeed = new Map(entries.map(({ pid }, at) => [pid, at]));
  const readers = new Set<number>();
  for (const [id, times] of shown) {
    for (const [n, { at, entry }] of times.entries()) {
      const next = times[n + 1]?.entry;
      if (next?.did !== 'shown') continue;
      readers.add(entry.pid);
      // It printed several in one write: the last of them is its last deed.
      const wroteLater = entries
        .slice(at, (lastDeed.get(entry.pid) ?? at) + 1)
        .some((e) => e.pid === entry.pid && e.did !== 'shown');
      const death = died.get(entry.pid);
      faults.expect(!wroteLater, `${id} came to two live readers`);
      faults.expect(
        death === 'T3 shown' || death === ANY_MOMENT,
        `${id} came again though its reader died ${death ?? 'not at all'}`,
      );
      faults.expect(next.attempt > 0, `${id} came again without a mark`);
    }
  }
  return [...readers];
}

function groupedById(entries: Entry[], did: 'shown' | 'settled'): Map<string, { at: number; entry: Entry }[]> {
  const grouped = new Map<string, { at: number; entry: Entry }[]>();
  for (const [at, entry] of entries.entries()) {
    if (entry.did !== did) continue;
    const of = grouped.get(entry.id) ?? [];
    of.push({ at, entry });
    grouped.set(entry.id, of);
  }
  return grouped;
}
