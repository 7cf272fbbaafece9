import { aClock } from '../../../test/support/clock.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { ledgerContract } from './ledger.contract.ts';
import { openSqliteLedger } from './sqlite.ts';

ledgerContract('sqlite', async () => {
  const clock = aClock();
  const ledger = openSqliteLedger({ path: `${temporaryHome()}/ledger.db`, durability: 'normal', now: clock.now });
  return { ledger, ...clock, close: () => ledger.close() };
});
