import { once } from '../once.ts';
import { standIn } from '../stand-in.ts';
import { Connection } from './connection.ts';
import type { LedgerOptions } from './connection.ts';
import type { Ledger } from './ledger.ts';
import type * as Copies from './sqlite-copies.ts';
import type * as Duties from './sqlite-duties.ts';
import { SqliteSending } from './sqlite-send.ts';

/** `moveLog` is for who keeps house for it. */
export type SqliteLedger = Ledger & Pick<Copies.SqliteCopies, 'moveLog'>;

/** Opens (or makes) the ledger of one home. Safe for many processes at once. A send asks for little of it: the rest is loaded when it is asked for. */
export function openSqliteLedger(options: LedgerOptions): SqliteLedger {
  const connection = new Connection(options);
  const copies = once(() => new (require('./sqlite-copies.ts') as typeof Copies).SqliteCopies(connection));
  const duties = (): Duties.SqliteDuties =>
    new (require('./sqlite-duties.ts') as typeof Duties).SqliteDuties(connection);
  return standIn(new SqliteSending(connection, copies), () => standIn(copies(), duties));
}
