import { readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { Faults } from './drill.ts';
import type { Drill } from './drill.ts';
import { startChild } from './child.ts';
import { homeWith } from './mailroom.ts';

/** Ways in which a ledger can be lost. */
const RUINS: Record<string, (path: string) => void> = {
  garbage: (path) => writeFileSync(path, crypto.getRandomValues(new Uint8Array(Math.min(65_536, statSync(path).size)))),
  'garbage in its middle': (path) => {
    const { size } = statSync(path);
    const bytes = new Uint8Array(size);
    crypto.getRandomValues(bytes.subarray(0, Math.min(size, 65_536)));
    writeFileSync(path, bytes.copyWithin(4096, 0), { flag: 'r+' });
  },
  'an empty file': (path) => truncateSync(path, 0),
  nothing: (path) => {
    for (const part of ['', '-wal', '-shm']) rmSync(path + part, { force: true });
  },
};

/** The ledger is destroyed while mail waits: the files alone must be enough. */
export const ruins: Drill = {
  name: 'the ledger is destroyed while mail waits',
  async run(long) {
    const faults = new Faults();
    const counts = { ways: 0, waiting: 0, 'taken before': 0, 'taken after': 0, twice: 0, lost: 0 };
    for (const [way, ruin] of Object.entries(RUINS)) {
      const { root, ids } = await homeWith(long ? 2000 : 200);
      const before = await take(root, 3, Math.floor(ids.length / 6));
      ruin(`${root}/ledger.db`);
      const after = await take(root, 4);
      const all = [...before, ...after];
      const lost = ids.filter((id) => !new Set(all).has(id));
      faults.none(lost, `messages were lost after ${way}`);
      faults.expect(
        all.length === new Set(all).size,
        `${all.length - new Set(all).size} were taken twice after ${way}`,
      );
      faults.none(readdirSync(`${root}/spool/bob/held`), `files are left in a hand after ${way}`);
      counts.ways += 1;
      counts.waiting += ids.length;
      counts['taken before'] += before.length;
      counts['taken after'] += after.length;
      counts.twice += all.length - new Set(all).size;
      counts.lost += lost.length;
    }
    return { counts, faults: faults.found };
  },
};

/** Lets so many processes take together, each at most so much, and says what they took. */
async function take(root: string, processes: number, most?: number): Promise<string[]> {
  const children = Array.from({ length: processes }, () => startChild('taker.child.ts', { root, bite: 20, most }));
  await Promise.all(children.map((child) => child.ready));
  for (const child of children) child.go();
  await Promise.all(children.map((child) => child.ended));
  const facts = (await Promise.all(children.map((child) => child.said))).flat();
  return facts.flatMap((fact) => (typeof fact['taken'] === 'string' ? [fact['taken']] : []));
}
