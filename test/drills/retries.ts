import { Faults } from './drill.ts';
import type { Drill } from './drill.ts';
import { startChild } from './child.ts';
import { homeWith } from './mailroom.ts';

/** A send is repeated while its message is being taken: the Maildir alone would let it come back. */
export const retries: Drill = {
  name: 'a retried send races a take',
  async run(long) {
    const rounds = long ? 400 : 40;
    const { root } = await homeWith(0);
    const senders = [1, 2].map(() => startChild('retrier.child.ts', { root, rounds, tries: 4 }));
    const readers = [1, 2].map(() => startChild('watcher.child.ts', { root }));
    const all = [...senders, ...readers];
    await Promise.all(all.map((child) => child.ready));
    for (const child of all) child.go();
    await Promise.all(senders.map((child) => child.ended));
    for (const reader of readers) reader.stop();
    await Promise.all(readers.map((child) => child.ended));
    const sent = (await Promise.all(senders.map((child) => child.said))).flat();
    const read = (await Promise.all(readers.map((child) => child.said))).flat();
    const answers = sent.filter((fact) => 'stored' in fact);
    const ids = new Map<unknown, Set<unknown>>();
    for (const { key, stored } of answers) ids.set(key, (ids.get(key) ?? new Set()).add(stored));
    const taken = read.flatMap((fact) => (typeof fact['taken'] === 'string' ? [fact['taken']] : []));
    const twice = taken.length - new Set(taken).size;
    const faults = new Faults();
    faults.expect(ids.size === rounds, `only ${ids.size} keys were answered`);
    faults.none(
      [...ids].filter(([, of]) => of.size > 1).map(([key]) => String(key)),
      'keys have two ids',
    );
    faults.expect(twice === 0, `${twice} messages were taken twice`);
    faults.expect(new Set(taken).size === rounds, `${new Set(taken).size} of ${rounds} messages were taken`);
    const firsts = answers.filter((fact) => fact['first']).length;
    faults.expect(firsts === rounds, `${firsts} sends were told that they were the first`);
    return { counts: { rounds, sends: answers.length, taken: taken.length, twice }, faults: faults.found };
  },
};
