import { aClock } from '../../../test/support/clock.ts';
import { MemoryLedger } from '../ledger/memory.ts';
import { MemorySpool } from './memory.ts';
import { spoolContract } from './spool.contract.ts';

spoolContract('memory', async () => {
  const { now, pass } = aClock();
  const ledger = new MemoryLedger(now);
  const spool = new MemorySpool({ ledger, now });
  return { spool, ledger, pass, another: async () => spool, leave: () => {}, close: () => spool.close() };
});
