import { aClock } from '../../../test/support/clock.ts';
import { dutiesContract } from './duties.contract.ts';
import { ledgerContract } from './ledger.contract.ts';
import { MemoryLedger } from './memory.ts';

for (const contract of [ledgerContract, dutiesContract]) {
  contract('memory', async () => {
    const clock = aClock();
    const ledger = new MemoryLedger(clock.now);
    return { ledger, ...clock, close: () => ledger.close() };
  });
}
