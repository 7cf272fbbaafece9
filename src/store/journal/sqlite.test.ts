import { expect, it } from 'bun:test';
import { statSync } from 'node:fs';
import { aClock } from '../../../test/support/clock.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { quickFolder } from '../../../test/support/quick-home.ts';
import { anEntry } from '../../../test/support/mail.ts';
import { obligationsContract } from '../obligations.contract.ts';
import { journalContract } from '../journal.contract.ts';
import { exportLock } from './log.ts';
import { openSqliteJournal } from './sqlite.ts';

for (const contract of [journalContract, obligationsContract]) {
  contract('sqlite', async () => {
    const clock = aClock();
    const journal = openSqliteJournal({ path: `${quickFolder()}/ledger.db`, durability: 'normal', now: clock.now });
    return { journal, ...clock, close: () => journal.close() };
  });
}

it('the search index reports how much is left, and has a message that arrives during the fill only once', async () => {
  const journal = openSqliteJournal({ path: `${temporaryHome()}/ledger.db`, durability: 'full' });
  await journal.accept(anEntry({ body: 'needle' }));
  const left: number[] = [];
  await journal.search('needle', { limit: 10 }, (count) => {
    left.push(count);
    if (left.length === 1) void journal.accept(anEntry({ body: 'needle and more' }));
  });
  expect(left).toEqual([1, 1]);
  expect((await journal.search('needle', { limit: 10 })).map(({ seq }) => seq)).toEqual([2, 1]);
  await journal.close();
});

it('a process that opens the journal leaves its log alone while a living process exports', async () => {
  const path = `${temporaryHome()}/ledger.db`;
  const journal = openSqliteJournal({ path, durability: 'normal' });
  journal.tuneForServer();
  const body = 'x'.repeat(20_000);
  for (let n = 0; n < 60; n += 1) await journal.accept(anEntry({ body }));
  const log = statSync(`${path}-wal`).size;
  expect(log).toBeGreaterThan(1_000_000);
  const lock = exportLock(path);
  const guest = openSqliteJournal({ path, durability: 'normal' });
  await guest.accept(anEntry({ body }));
  await guest.close();
  expect(statSync(`${path}-wal`).size).toBeGreaterThanOrEqual(log);
  lock?.release();
  await openSqliteJournal({ path, durability: 'normal' }).close();
  expect(statSync(`${path}-wal`).size).toBe(0);
  await journal.close();
});
