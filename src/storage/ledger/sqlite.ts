import { Connection } from './connection.ts';
import type { LedgerOptions } from './connection.ts';
import type { Ledger } from './ledger.ts';
import { SqliteDuties } from './sqlite-duties.ts';

/** `checkpoint` is for the exporter. */
export type SqliteLedger = Ledger & Pick<SqliteDuties, 'checkpoint'>;

/** Opens (or makes) the ledger of one home. Safe for many processes at once. */
export function openSqliteLedger(options: LedgerOptions): SqliteLedger {
  const ledger = new SqliteDuties(new Connection(options));
  ledger.importOldTray();
  return ledger;
}
