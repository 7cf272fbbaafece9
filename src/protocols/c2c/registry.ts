import { closeSync, futimesSync, mkdirSync, openSync, statSync } from 'node:fs';
import { explained } from '../../core/disk.ts';
import { stampOf } from '../../platform/files.ts';
import { platform } from '../../platform/os.ts';
import { readList, writeList } from './files.ts';
import type { JsonList } from './json-list.ts';
import { withLock } from './lock.ts';
import { isSameAlias, readRow } from './shapes.ts';
import type { SessionRow } from './shapes.ts';

/** A row without a process keeps its alias for this long after its last activity. */
const UNPROVEN_S = 3600;
/** A lease counts for this long after it was touched. spec: c2c#containers */
const LEASE_MS = 300_000;

/** One element of the registry: the value in the file, and the row read from it; null if it cannot be read. Then the value is kept unchanged. */
export interface Kept {
  value: unknown;
  row: SessionRow | null;
}

/** `registry.json`: the sessions of a broker, shared with other programs. Each change reads it again, under its lock. spec: c2c#registry */
export class RegistryFile {
  readonly path: string;
  /** Sessions under whose alias another session writes in this process. That must not count as their activity. */
  readonly lent = new Set<string>();
  #read: { stamp: string; kept: Kept[]; isBroken: boolean } | undefined;

  constructor(readonly root: string) {
    this.path = `${root}/registry.json`;
  }

  /** All elements, in the order of the file. Reads the file again only if it has changed. */
  all(): Kept[] {
    const stamp = stampOf(this.path, true);
    if (this.#read?.stamp !== stamp) {
      const list: JsonList = stamp === '' ? { values: [], texts: [] } : readRegistry(this.path);
      this.#read = { stamp, kept: keptIn(list), isBroken: list.broken !== undefined };
    }
    return this.#read.kept;
  }

  rows(): SessionRow[] {
    return rowsIn(this.all());
  }

  /**
   * Whether the process of a session runs. Null if that cannot be proven: the row has no process, or no start time (another process may have the
   * pid by now). A pid means nothing in another container: there a lease decides, unless the process is visible here. spec: c2c#alive
   */
  isAlive({ session_id, pid, pid_start_time: start }: SessionRow): boolean | null {
    const runs = isRunning(pid, start);
    if (pid !== 0 && !isContainer()) return runs;
    return runs === true || this.#isLeased(session_id) || (pid === 0 ? null : false);
  }

  /** The row with this alias. If other programs left several, the one whose process may run, else the first. */
  rowOf(alias: string, rows: readonly SessionRow[] = this.rows()): SessionRow | undefined {
    const alike = rows.filter((row) => isSameAlias(row.alias, alias));
    return alike.length > 1 ? (alike.find((row) => this.isAlive(row) !== false) ?? alike[0]) : alike[0];
  }

  /** Renews the lease by which other containers see that this session lives. Does nothing outside a container. spec: c2c#containers */
  touchLease(sessionId: string, now: number): void {
    if (!isContainer()) return;
    mkdirSync(`${this.root}/.leases`, { recursive: true, mode: 0o700 });
    const fd = openSync(this.#lease(sessionId), 'a', 0o600);
    futimesSync(fd, now / 1000, now / 1000);
    closeSync(fd);
  }

  #isLeased(sessionId: string): boolean {
    const touched = statSync(this.#lease(sessionId), { throwIfNoEntry: false })?.mtimeMs;
    return touched !== undefined && Date.now() - touched <= LEASE_MS;
  }

  #lease(sessionId: string): string {
    return `${this.root}/.leases/${sessionId}`;
  }

  /** If another program left the file broken: keeps a copy, and writes back what can be recovered. */
  mend(): void {
    this.all();
    if (this.#read?.isBroken) this.change((kept) => ({ rows: kept.map(({ value }) => value), answer: null }));
  }

  /** Reads, changes and writes the file once, under its lock. Writes nothing if `act` returns no `rows`. `after` runs under the same lock. Nothing may await. */
  change<T>(act: (kept: Kept[]) => { rows?: readonly unknown[]; answer: T }, after: (answer: T) => void = () => {}): T {
    try {
      mkdirSync(this.root, { recursive: true, mode: 0o700 });
      return withLock(`${this.path}.lock`, () => {
        const before = readRegistry(this.path);
        const { rows, answer } = act(keptIn(before));
        if (rows) writeList(this.root, this.path, rows, before);
        this.#read = undefined;
        after(answer);
        return answer;
      });
    } catch (error) {
      throw explained(error, this.root, 'nothing was changed');
    }
  }

  /** Changes fields of one row; undefined removes a field. Keeps the exact text of the rest. Null if there is no such row. */
  amend(
    which: (rows: SessionRow[], kept: Kept[]) => SessionRow | undefined,
    change: (row: SessionRow, rows: SessionRow[]) => Record<string, unknown> | null,
  ): SessionRow | null {
    return this.change((kept) => {
      const rows = rowsIn(kept);
      const row = which(rows, kept);
      const changes = row && change(row, rows);
      if (!row || !changes) return { answer: row ?? null };
      const values = kept.map((one) => (one.row === row ? { ...(one.value as object), ...changes } : one.value));
      return { rows: values, answer: { ...row, ...changes } };
    });
  }
}

/** Whether this process runs; null if that cannot be proven. */
function isRunning(pid: number | undefined, start: number | undefined): boolean | null {
  if (pid === undefined) return null;
  const runs = Number.isSafeInteger(pid) && pid > 0 ? platform.processStart(pid) : null;
  if (runs === null) return false;
  if (start === undefined || runs === 'unknown') return null;
  return runs === String(start);
}

function keptIn({ values }: JsonList): Kept[] {
  return values.map((value) => ({ value, row: readRow(value) }));
}

export function rowsIn(kept: readonly Kept[]): SessionRow[] {
  return kept.flatMap(({ row }) => row ?? []);
}

/** The rows of a registry: an array, or an object with the array `registrations`, which some programs write. */
function readRegistry(path: string): JsonList {
  return readList(path, 'registrations');
}

/** Whether the user says that sessions of this broker run in several containers. */
export function isContainer(): boolean {
  return /^(1|true|yes|on)$/i.test(process.env['C2C_IN_DOCKER'] ?? '');
}

/** The time of the last activity, in seconds since 1970; 0 if there was none. */
export function lastSeen({ last_activity_ts: activity, registered_at: registered }: SessionRow): number {
  return Math.max(activity ?? 0, registered ?? 0);
}

/** Why an alias must not be taken from this session; null if it may be taken. */
export function whyHeld(row: SessionRow, alive: boolean | null, now: number): string | null {
  if (alive) return row.pid ? `its process ${row.pid} runs` : 'it was active less than 5 min ago';
  // pid 0: the process is in another container, and only its lease could keep the alias.
  if (alive === false || row.pid === 0) return null;
  const quiet = now / 1000 - lastSeen(row);
  // A time far in the future does not count: a clock was set back, or another program writes milliseconds.
  if (Math.abs(quiet) >= UNPROVEN_S) return null;
  return `seen ${quiet < 60 ? 'just now' : `${Math.floor(quiet / 60)} min ago`}; without a process it keeps its alias for an hour`;
}

/** The process fields of a row: the pid with its start time, because a pid alone can be reused. pid 0: the process is not visible outside its container. */
export function processFields(pid: number | undefined): Pick<SessionRow, 'pid' | 'pid_start_time'> {
  if (pid === 0) return { pid };
  const start = pid === undefined ? null : platform.processStart(pid);
  return start === null ? {} : { pid, ...(/^\d+$/.test(start) && { pid_start_time: Number(start) }) };
}
