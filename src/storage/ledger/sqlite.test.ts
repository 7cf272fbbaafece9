import { expect, it } from 'bun:test';
import { copyFileSync, statSync } from 'node:fs';
import { aClock } from '../../../test/support/clock.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { quickFolder } from '../../../test/support/quick-home.ts';
import { anEntry, bob, copiesFor } from '../../../test/support/mail.ts';
import { dutiesContract } from './duties.contract.ts';
import { ledgerContract } from './ledger.contract.ts';
import { keeperLock } from './log.ts';
import { openSqliteLedger } from './sqlite.ts';

for (const contract of [ledgerContract, dutiesContract]) {
  contract('sqlite', async () => {
    const clock = aClock();
    const ledger = openSqliteLedger({ path: `${quickFolder()}/ledger.db`, durability: 'normal', now: clock.now });
    return { ledger, ...clock, close: () => ledger.close() };
  });
}

it('the index of words tells how much is left, and has a message once that arrives while it is filled', async () => {
  const ledger = openSqliteLedger({ path: `${temporaryHome()}/ledger.db`, durability: 'full' });
  await ledger.accept(anEntry({ body: 'needle' }));
  const left: number[] = [];
  await ledger.search('needle', { limit: 10 }, (count) => {
    left.push(count);
    if (left.length === 1) void ledger.accept(anEntry({ body: 'needle and more' }));
  });
  expect(left).toEqual([1, 1]);
  expect((await ledger.search('needle', { limit: 10 })).map(({ seq }) => seq)).toEqual([2, 1]);
  await ledger.close();
});

it('a log that a living process looks after is left to it by whoever opens the ledger', async () => {
  const path = `${temporaryHome()}/ledger.db`;
  const ledger = openSqliteLedger({ path, durability: 'normal' });
  ledger.leaveLog();
  const body = 'x'.repeat(20_000);
  for (let n = 0; n < 60; n += 1) await ledger.accept(anEntry({ body }));
  const log = statSync(`${path}-wal`).size;
  expect(log).toBeGreaterThan(1_000_000);
  const keeper = keeperLock(path);
  const guest = openSqliteLedger({ path, durability: 'normal' });
  await guest.accept(anEntry({ body }));
  await guest.close();
  expect(statSync(`${path}-wal`).size).toBeGreaterThanOrEqual(log);
  keeper?.release();
  await openSqliteLedger({ path, durability: 'normal' }).close();
  expect(statSync(`${path}-wal`).size).toBe(0);
  await ledger.close();
});

it('what came from a tray is entered together with the word that it was, or not at all', async () => {
  const path = `${temporaryHome()}/ledger.db`;
  const ledger = openSqliteLedger({ path, durability: 'normal' });
  const twiceInOneMailbox = anEntry({}, { copies: copiesFor(bob, bob) });
  expect(ledger.acceptTogether([anEntry(), twiceInOneMailbox], { round: 1, bytes: 99 })).rejects.toThrow();
  expect([await ledger.newest(), (await ledger.tray()).place]).toEqual([0, { round: 0, bytes: 0 }]);
  await ledger.acceptTogether([anEntry()], { round: 1, bytes: 50 });
  await ledger.close();
  const again = openSqliteLedger({ path, durability: 'normal' });
  expect([await again.newest(), (await again.tray()).place]).toEqual([1, { round: 1, bytes: 50 }]);
  await again.close();
  const other = openSqliteLedger({ path: `${temporaryHome()}/ledger.db`, durability: 'normal' });
  expect((await other.tray()).life).not.toBe((await openSqliteLedger({ path, durability: 'normal' }).tray()).life);
  await other.close();
});

it('a log that is flushed at every commit is laid out ahead, and what stands in it is read after a crash', async () => {
  const [path, crashed] = [`${temporaryHome()}/ledger.db`, `${temporaryHome()}/ledger.db`];
  const ledger = openSqliteLedger({ path, durability: 'normal' });
  ledger.leaveLog();
  await ledger.acceptTogether([anEntry()]);
  const { size } = statSync(`${path}-wal`);
  for (let n = 0; n < 3; n += 1) await ledger.acceptTogether([anEntry()]);
  expect(statSync(`${path}-wal`).size).toBe(size);
  for (const part of ['', '-wal', '.id']) copyFileSync(`${path}${part}`, `${crashed}${part}`);
  const found = openSqliteLedger({ path: crashed, durability: 'normal' });
  expect(await found.newest()).toBe(4);
  for (const one of [ledger, found]) await one.close();
});
