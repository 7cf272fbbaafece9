// The history of sessions with several processes at once, and long histories.
import { Database } from 'bun:sqlite';
import { describe, expect, it } from 'bun:test';
import { readFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { quickFolder } from '../../../test/support/quick-home.ts';
import type { AgentName } from '../../core/names.ts';
import { sessionStoreContract } from '../session-store.contract.ts';
import { SESSION_PAGES } from './sessions.ts';
import { openSqliteJournal } from './sqlite.ts';

const CHILD = `${import.meta.dir}/../../../test/support/session-store.child.ts`;

sessionStoreContract('sqlite', async () => {
  const journal = openSqliteJournal({ path: `${quickFolder()}/ledger.db`, durability: 'normal' });
  return { store: journal.sessionStore(), close: () => journal.close() };
});

/** Starts processes that begin when all are ready. Returns the ids that each one got. */
async function together(path: string, act: string, many: number): Promise<unknown[]> {
  const children = Array.from({ length: many }, () => {
    const program = [process.execPath, CHILD, path, act];
    const child = Bun.spawn(program, { stdin: 'pipe', stdout: 'pipe', stderr: 'inherit' });
    return { child, output: child.stdout.getReader() };
  });
  for (const { output } of children) await output.read();
  for (const { child } of children) await child.stdin.end();
  return Promise.all(
    children.map(async ({ child, output }) => {
      let text = '';
      for (let part = await output.read(); !part.done; part = await output.read()) {
        text += Buffer.from(part.value).toString();
      }
      await child.exited;
      return JSON.parse(text) as unknown;
    }),
  );
}

describe('of several processes', () => {
  it('all ids are different, and those of each increase [CCC-84]', async () => {
    const path = `${temporaryHome()}/ledger.db`;
    const journal = openSqliteJournal({ path, durability: 'normal' });
    const given = (await together(path, 'write', 4)) as number[][];
    for (const ids of given) expect(ids).toEqual(ids.toSorted((a, b) => a - b));
    expect(new Set(given.flat()).size).toBe(4 * 100);
    const stored = await journal.sessionStore().history({ session: 'web', after: 0, limit: 1000 });
    expect(stored.map(({ id }) => id)).toEqual(given.flat().toSorted((a, b) => a - b));
    await journal.close();
  });

  it('exactly one begins a prompt', async () => {
    const path = `${temporaryHome()}/ledger.db`;
    const journal = openSqliteJournal({ path, durability: 'normal' });
    const store = journal.sessionStore();
    const line = { session: 'web', ts: 1, from: 'api', text: 'x' } as const;
    for (let n = 0; n < 20; n += 1) await store.enqueue(line, { key: `${n}`, raw: false, at: 1, deadline: null });
    const begun = (await together(path, 'begin', 4)) as number[][];
    expect(begun.flat().toSorted((a, b) => a - b)).toEqual((await store.open()).map(({ id }) => id));
    await journal.close();
  });

  it('a restarted one sees what another stored', async () => {
    const path = `${temporaryHome()}/ledger.db`;
    const journal = openSqliteJournal({ path, durability: 'normal' });
    await journal.sessionStore().raiseIds(7);
    await journal.sessionStore().bind('web', { conversation: 'c', place: 'p' });
    await journal.close();
    const again = openSqliteJournal({ path, durability: 'normal' });
    expect(await again.sessionStore().binding('web')).toEqual({ conversation: 'c', place: 'p' });
    expect(await again.sessionStore().lastEarlierId()).toBe(7);
    await again.close();
  });
});

/** A journal of this format, as a fixture has it. */
function ledgerOf(format: number) {
  const path = `${quickFolder()}/ledger.db`;
  const db = new Database(path);
  db.run('PRAGMA journal_mode = WAL');
  db.run(readFileSync(`${import.meta.dir}/../../../test/fixtures/ledger/v${format}.sql`, 'utf8'));
  db.close();
  return openSqliteJournal({ path, durability: 'normal' });
}

it('this version reads the choices of a journal of format 5 correctly', async () => {
  const journal = ledgerOf(5);
  const choices = [null, { options: [0, 2] }, { text: 'none' }];
  expect(await journal.sessionStore().choices('web')).toEqual({ call: 'call-1', choices });
  await journal.close();
});

it('this version reads the history of a journal of format 4 correctly', async () => {
  const journal = ledgerOf(4);
  const store = journal.sessionStore();
  const history = await store.history({ session: 'web', after: 0, limit: 9 });
  expect(history.map(({ text }) => text)).toEqual(['a question', 'an answer', 'typed', 'it waits']);
  expect(await store.replyTo(1)).toMatchObject({ id: 2, from: 'claude' });
  expect(await store.open()).toMatchObject([{ id: 4, key: 'key-4', text: 'it waits', because: 'a dialog is open' }]);
  expect(await store.binding('web')).toEqual({ conversation: 'conversation-1', place: 'place-2' });
  expect((await store.unexported(9)).map(({ id }) => id)).toEqual([3, 4]);
  await journal.close();
});

it('pruning and forgetting an agent leave the history of sessions alone [CCC-142]', async () => {
  const journal = openSqliteJournal({ path: `${quickFolder()}/ledger.db`, durability: 'normal' });
  const line = await journal.sessionStore().record({ session: 'web', ts: 1, from: 'human', text: 'kept' });
  await journal.prune({ bodies: Infinity, facts: Infinity });
  await journal.forget('web' as AgentName);
  expect(await journal.sessionStore().history({ session: 'web', limit: 9 })).toEqual([line]);
  await journal.close();
});

it.each(Object.entries(SESSION_PAGES))(
  'the question %s reads its own index from one end, however much history there is [CCC-93]',
  async (_name, { sql, index }) => {
    const path = `${quickFolder()}/ledger.db`;
    await openSqliteJournal({ path, durability: 'normal' }).close();
    const db = new Database(path, { readonly: true });
    const plan = db.query<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${sql}`).all();
    const said = plan.map(({ detail }) => detail).join('\n');
    expect(said).toMatch(
      new RegExp(`SEARCH \\w+ USING (COVERING )?INDEX ${index} \\(.*[=<>]|SCAN \\w+ USING INDEX ${index}`),
    );
    expect(said).not.toContain('TEMP B-TREE');
    db.close();
  },
);
