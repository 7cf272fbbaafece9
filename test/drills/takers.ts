import { Faults } from './drill.ts';
import type { Drill } from './drill.ts';
import { startChild } from './child.ts';
import { homeWith } from './mailroom.ts';

/** Many processes empty one mailbox together. */
export const takers: Drill = {
  name: 'eight processes take from one mailbox',
  async run(long) {
    const { root, ids } = await homeWith(long ? 10_000 : 1000);
    const children = Array.from({ length: 8 }, () => startChild('taker.child.ts', { root, bite: long ? 256 : 32 }));
    await Promise.all(children.map((child) => child.ready));
    const start = performance.now();
    for (const child of children) child.go();
    await Promise.all(children.map((child) => child.ended));
    // The last of them look three times whether really nothing waits any more.
    const seconds = (performance.now() - start - 60) / 1000;
    const facts = (await Promise.all(children.map((child) => child.said))).flat();
    const taken = facts.flatMap((fact) => (typeof fact['taken'] === 'string' ? [fact['taken']] : []));
    const longest = Math.round(Math.max(...facts.map((fact) => Number(fact['longest'] ?? 0))));
    const lost = ids.filter((id) => !new Set(taken).has(id));
    const twice = taken.length - new Set(taken).size;
    const rate = Math.round(ids.length / seconds);
    const faults = new Faults();
    faults.none(lost, 'messages were lost');
    faults.expect(twice === 0, `${twice} messages were taken twice`);
    // The short form is over before a rate means anything, and runs on machines that are busy with something else.
    if (long) faults.expect(rate >= 5000, `only ${rate} a second`);
    if (long) faults.expect(longest < 1000, `somebody waited ${longest} ms`);
    const counts = { taken: taken.length, twice, lost: lost.length, 'a second': rate, 'longest wait ms': longest };
    return { counts, faults: faults.found };
  },
};
