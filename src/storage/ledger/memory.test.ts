import { aClock } from '../../../test/support/clock.ts';
import { ledgerContract } from './ledger.contract.ts';
import { MemoryLedger } from './memory.ts';

ledgerContract('memory', async () => {
  const clock = aClock();
  const ledger = new MemoryLedger(clock.now);
  return { ledger, ...clock, close: () => ledger.close() };
});
