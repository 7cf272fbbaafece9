import { Connection } from './connection.ts';
import type { LedgerOptions } from './connection.ts';
import type { Ledger } from './ledger.ts';
import { SqliteDuties } from './sqlite-duties.ts';

/** `moveLog` is for who keeps house for it. */
export type SqliteLedger = Ledger & Pick<SqliteDuties, 'moveLog'>;

/** Opens (or makes) the ledger of one home. Safe for many processes at once. */
export function openSqliteLedger(options: LedgerOptions): SqliteLedger {
  return new SqliteDuties(new Connection(options));
}
