import { expect, it } from 'bun:test';
import { aClock } from '../../../test/support/clock.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { anEntry } from '../../../test/support/mail.ts';
import { ledgerContract } from './ledger.contract.ts';
import { openSqliteLedger } from './sqlite.ts';

ledgerContract('sqlite', async () => {
  const clock = aClock();
  const ledger = openSqliteLedger({ path: `${temporaryHome()}/ledger.db`, durability: 'normal', now: clock.now });
  return { ledger, ...clock, close: () => ledger.close() };
});

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
