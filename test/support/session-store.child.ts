// One process at work on the history of sessions: `session-store.child.ts <ledger.db> <act>`. Says on stdout that it is ready, and what it
// did once its standard input ends.
import { writeSync } from 'node:fs';
import { openSqliteJournal } from '../../src/store/journal/sqlite.ts';

const [, , path = '', act = ''] = process.argv;
const journal = openSqliteJournal({ path, durability: 'normal' });
const store = journal.sessionStore();
const line = { session: 'web', ts: 1, from: 'human', text: 'x' } as const;

const acts: Record<string, () => Promise<number[]>> = {
  /** The ids of a hundred lines; every second is a prompt. */
  async write() {
    const ids: number[] = [];
    for (let n = 0; n < 100; n += 1) {
      const options = { key: `${n}`, raw: false, at: 1, deadline: null };
      ids.push((n % 2 === 0 ? await store.record(line) : await store.enqueue(line, options)).id);
    }
    return ids;
  },

  /** The prompts that this process has begun. */
  async begin() {
    const ids: number[] = [];
    for (const { id } of await store.open()) if (await store.begin(id, 'place')) ids.push(id);
    return ids;
  },
};

writeSync(1, 'ready\n');
for await (const _chunk of Bun.stdin.stream()) break;
writeSync(1, JSON.stringify((await acts[act]?.()) ?? null));
await journal.close();
process.exit(0);
