import { readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { Faults } from './drill.ts';
import type { Drill, Outcome } from './drill.ts';
import { startChild } from './child.ts';
import { homeWith } from './mailroom.ts';

/** How many a reader takes into its hand at once. */
const BITE = 20;

/** Ways in which a ledger can be lost. */
const RUINS: Record<string, (path: string) => void> = {
  garbage: (path) => writeFileSync(path, garbage(path)),
  'garbage in the open file': (path) => writeFileSync(path, garbage(path), { flag: 'r+' }),
  'an empty file': (path) => truncateSync(path, 0),
  'nothing left': (path) => {
    for (const part of ['', '-wal', '-shm']) rmSync(path + part, { force: true });
  },
};

/** Only while somebody has the ledger open it has a log: anyone who closes it last puts that away. */
const LIVE_RUINS: typeof RUINS = {
  ...RUINS,
  'garbage in its log': (path) => writeFileSync(`${path}-wal`, garbage(`${path}-wal`), { flag: 'r+' }),
};

/** The ledger is destroyed between readers: everything that waited is taken once, and nothing taken before comes again. */
export const ruins: Drill = {
  name: 'the ledger is destroyed while mail waits',
  async run(long) {
    const count = new Count();
    for (const [way, ruin] of Object.entries(RUINS)) {
      const { root, ids } = await homeWith(long ? 2000 : 200);
      const before = readers(root, 3, Math.floor(ids.length / 6));
      await before.ended;
      ruin(`${root}/ledger.db`);
      const after = readers(root, 4);
      await after.ended;
      count.add(way, root, ids, [...(await before.taken), ...(await after.taken)], 0);
    }
    return count.outcome();
  },
};

/** The same while readers are at work: nothing is lost, and at most what is in a hand at that moment can come again. */
export const liveRuins: Drill = {
  name: 'the ledger is destroyed under the hands of readers',
  async run(long) {
    const count = new Count();
    for (const [way, ruin] of Object.entries(LIVE_RUINS)) {
      const { root, ids } = await homeWith(long ? 2000 : 300);
      const working = readers(root, 4);
      while (readdirSync(`${root}/spool/bob/new`).length > ids.length * 0.7) await Bun.sleep(1);
      ruin(`${root}/ledger.db`);
      await working.ended;
      const last = readers(root, 1);
      await last.ended;
      count.add(way, root, ids, [...(await working.taken), ...(await last.taken)], 4 * BITE);
    }
    return count.outcome();
  },
};

interface Readers {
  ended: Promise<unknown>;
  taken: Promise<string[]>;
}

/** Lets so many processes take together, each at most so much. */
function readers(root: string, processes: number, most?: number): Readers {
  const children = Array.from({ length: processes }, () => startChild('taker.child.ts', { root, bite: BITE, most }));
  const ended = (async () => {
    await Promise.all(children.map((child) => child.ready));
    for (const child of children) child.go();
    await Promise.all(children.map((child) => child.ended));
  })();
  const taken = (async () => {
    const facts = (await Promise.all(children.map((child) => child.said))).flat();
    return facts.flatMap((fact) => (typeof fact['taken'] === 'string' ? [fact['taken']] : []));
  })();
  return { ended, taken };
}

class Count {
  readonly #faults = new Faults();
  readonly #counts = { ways: 0, waiting: 0, taken: 0, lost: 0, 'came again': 0 };

  add(way: string, root: string, ids: string[], taken: string[], mayComeAgain: number): void {
    const once = new Set(taken);
    const lost = ids.filter((id) => !once.has(id));
    const again = taken.length - once.size;
    this.#faults.none(lost, `messages were lost after ${way}`);
    this.#faults.expect(again <= mayComeAgain, `${again} came again after ${way}`);
    this.#faults.none(readdirSync(`${root}/spool/bob/held`), `files are left in a hand after ${way}`);
    this.#counts.ways += 1;
    this.#counts.waiting += ids.length;
    this.#counts.taken += once.size;
    this.#counts.lost += lost.length;
    this.#counts['came again'] += again;
  }

  outcome(): Outcome {
    return { counts: this.#counts, faults: this.#faults.found };
  }
}

function garbage(path: string): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(Math.min(65_536, statSync(path).size)));
}
