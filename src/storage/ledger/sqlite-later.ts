import type { Connection } from './connection.ts';
import type { Duties } from './duties.ts';
import { SqliteLate } from './sqlite-late.ts';
import { lazily } from '../once.ts';

/** Every promise of duties.ts by its name; a missing one is told by the compiler, below. */
const DUTIES = [
  'unentered',
  'enter',
  'addDuty',
  'duty',
  'owed',
  'blocking',
  'owedCount',
  'dueDuties',
  'nextDue',
  'changeDuty',
  'claimEvent',
  'eventClaim',
  'freeClaim',
  'claimsOf',
  'saveSession',
  'session',
  'sessions',
  'dropSession',
] as const satisfies readonly (keyof Duties)[];

type Promised = Pick<Duties, (typeof DUTIES)[number]>;
type Asked = (...given: unknown[]) => Promise<unknown>;

/**
 * The ledger without what is asked of duties: that is read when the first is asked for. A send asks for none, and every function that
 * stands ready costs its start some microseconds. See ARCHITECTURE.md.
 */
class Later extends SqliteLate {
  readonly duties = lazily(async () => new (await import('./sqlite-duties.ts')).SqliteDuties(this.connection));
}

for (const name of DUTIES) {
  Object.defineProperty(Later.prototype, name, {
    writable: true,
    configurable: true,
    async value(this: Later, ...given: unknown[]) {
      const duties = await this.duties();
      return (duties[name] as Asked).apply(duties, given);
    },
  });
}

export const SqliteLater = Later as unknown as new (connection: Connection) => SqliteLate & Promised;
