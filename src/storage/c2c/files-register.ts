import { AliasTaken } from '../../protocol/c2c.ts';
import type { SessionRow } from '../../protocol/c2c.ts';
import { AgentName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { HOST_NAME } from '../../protocol/signal.ts';
import type { Registration } from './broker.ts';
import { holds, isAlive, processFields } from './files-liveness.ts';
import { isSame, withFields } from './files-rows.ts';
import type { Kept } from './files-rows.ts';

/** What becomes of the registry when a session gets its alias. */
export interface Registered {
  row: SessionRow;
  /** All rows, the new one first, as other programs write it. */
  rows: unknown[];
  /** Sessions that had the alias before and are gone: their mail goes to the new one. */
  heirless: string[];
  /** The alias that this session had before, if it was another one. */
  before: string | undefined;
}

/** What only a process that is gone knew. The rest of its row passes on with the alias. */
const OF_THE_PROCESS = [
  'pid',
  'pid_start_time',
  'compacting',
  'confirmed_at',
  'last_activity_ts',
  'client_type',
  'plugin_version',
  'automated_delivery',
  'cwd',
];

/** Decides who has an alias from now on. Pure but for the look at processes: whoever writes it down holds the registry's lock. */
export function registered(kept: readonly Kept[], wish: Registration, now: number): Registered {
  const mine = kept.find(({ row }) => row?.session_id === wish.sessionId);
  const wanted = wish.alias ?? mine?.row?.alias;
  if (wanted === undefined) {
    throw new Refusal('no_identity', 'this session has no alias yet; say which: `c2c register <alias>`');
  }
  const holders = kept.filter((one) => one !== mine && one.row !== null && isSame(one.row.alias, wanted));
  refuseTaken(kept, holders, wanted, now);
  // Mail is kept under the name as it was first written.
  const named = mine?.row && isSame(mine.row.alias, wanted) ? mine : holders[0];
  const alias = named?.row?.alias ?? wanted;
  const value = withFields(mine?.value ?? inherited(holders[0]), {
    ...ofTheName(named),
    ...freshFields(mine, wish),
    session_id: wish.sessionId,
    alias,
    registered_at: now / 1000,
    last_activity_ts: now / 1000,
    ...(wish.clientType !== undefined && { client_type: wish.clientType }),
  });
  // Rows of other programs keep no policy; whoever registers here does.
  value['parley'] ??= { v: 1, kind: 'agent', roles: [] };
  const others = kept.filter((one) => one !== mine && !holders.includes(one)).map((one) => one.value);
  const before = mine?.row && !isSame(mine.row.alias, alias) ? mine.row.alias : undefined;
  return {
    row: value as SessionRow,
    rows: [value, ...others],
    heirless: holders.flatMap(({ row }) => row?.session_id ?? []),
    before,
  };
}

function refuseTaken(kept: readonly Kept[], holders: readonly Kept[], wanted: string, now: number): void {
  if (wanted.toLowerCase() === HOST_NAME) {
    throw new Refusal('name_taken', `under "${HOST_NAME}" Parley itself writes; pick another alias`);
  }
  for (const { row } of holders) {
    const why = row && holds(row, now);
    if (row && why) throw new AliasTaken(row.alias, row.session_id, freeAlias(kept, wanted), why);
  }
  for (const { value } of kept) {
    const { alias, parley } = (value ?? {}) as Record<string, unknown>;
    const { roles } = (parley ?? {}) as Record<string, unknown>;
    if (!Array.isArray(roles) || !roles.includes(wanted)) continue;
    throw new Refusal('name_taken', `"${wanted}" is a role of ${String(alias)}; pick another alias`);
  }
}

/** The alias with a number behind it that nobody has; null if all of these are taken. */
function freeAlias(kept: readonly Kept[], wanted: string): string | null {
  const taken = kept.map(({ value }) => String((value as Record<string, unknown> | null)?.['alias']).toLowerCase());
  for (let number = 2; number < 100; number += 1) {
    const free = `${wanted.slice(0, 61)}-${number}`;
    if (!taken.includes(free.toLowerCase()) && AgentName.safeParse(free).success) return free;
  }
  return null;
}

/** Roles, a wish for quiet and the like belong to the name, whichever session has it. */
function ofTheName(named: Kept | undefined): Record<string, unknown> {
  const { parley, tokenHash } = (named?.value ?? {}) as Record<string, unknown>;
  return { ...(parley !== undefined && { parley }), ...(tokenHash !== undefined && { tokenHash }) };
}

function inherited(holder: Kept | undefined): Record<string, unknown> {
  const fields = Object.entries((holder?.value ?? {}) as Record<string, unknown>);
  return Object.fromEntries(fields.filter(([name]) => !OF_THE_PROCESS.includes(name)));
}

/** The process that was told now; without one, the one that the row names if it still runs. */
function freshFields(mine: Kept | undefined, { pid }: Registration): Record<string, unknown> {
  const told = processFields(pid);
  if (told.pid !== undefined) return { pid_start_time: undefined, ...told };
  const keeps = mine?.row?.pid !== undefined && isAlive(mine.row) !== false;
  return keeps ? {} : { pid: undefined, pid_start_time: undefined };
}
