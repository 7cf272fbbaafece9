import { closeSync, futimesSync, mkdirSync, openSync, statSync } from 'node:fs';
import { explained } from '../../core/disk.ts';
import { stampOf } from '../../platform/files.ts';
import { platform } from '../../platform/os.ts';
import { readList, writeList } from './files.ts';
import type { JsonList } from './json-list.ts';
import { withLock } from './lock.ts';
import { isSameAlias, readRow } from './shapes.ts';
import type { SessionRow } from './shapes.ts';

/** A row that names no process holds its alias for this long after its last sign of life. */
const UNPROVEN_S = 3600;
/** A lease counts for this long after it was touched. spec: c2c#containers */
const LEASE_MS = 300_000;

/** One element of the registry: the value in the file, and the row that we read from it. Null: unreadable, it stays as it is. */
export interface Kept {
  value: unknown;
  row: SessionRow | null;
}

/** `registry.json`: the sessions of a broker, shared with other programs. Each change reads it again, under its lock. spec: c2c#registry */
export class RegistryFile {
  readonly path: string;
  /** Sessions under whose alias another one writes here: that is no sign of their life. */
  readonly lent = new Set<string>();
  #read: { stamp: string; kept: Kept[]; isBroken: boolean } | undefined;

  constructor(readonly root: string) {
    this.path = `${root}/registry.json`;
  }

  /** Everything in the file, in its order. It is read again only if it has changed. */
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
   * Does the process of a session run? Null where nothing proves it either way: a row without a process, or one without the start time
   * of its process (the number may be another's by now). A number means nothing in another container: there a lease decides, unless the
   * process is seen here. spec: c2c#alive
   */
  isAlive({ session_id, pid, pid_start_time: start }: SessionRow): boolean | null {
    const runs = isRunning(pid, start);
    if (pid !== 0 && !isContainer()) return runs;
    return runs === true || this.#isLeased(session_id) || (pid === 0 ? null : false);
  }

  /** The row with this alias. Of two that others left, the one whose process may run, else the first. */
  rowOf(alias: string, rows: readonly SessionRow[] = this.rows()): SessionRow | undefined {
    const alike = rows.filter((row) => isSameAlias(row.alias, alias));
    return alike.length > 1 ? (alike.find((row) => this.isAlive(row) !== false) ?? alike[0]) : alike[0];
  }

  /** In a container: says to the others that this session lives. spec: c2c#containers */
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

  /** If another program left the file broken: keeps a copy, and writes what can be saved of it. */
  mend(): void {
    this.all();
    if (this.#read?.isBroken) this.change((kept) => ({ rows: kept.map(({ value }) => value), answer: null }));
  }

  /** Reads once, changes and writes once. Without `rows` nothing is written. `after` runs under the same lock. Nothing may await. */
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

  /** Changes fields of one row; undefined removes one. The rest of the file stays as it was written. Null if there is no such row. */
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

/** Null: nothing proves it either way. */
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

/** The user's word that sessions of this broker run in several containers. */
export function isContainer(): boolean {
  return /^(1|true|yes|on)$/i.test(process.env['C2C_IN_DOCKER'] ?? '');
}

/** Seconds since 1970 of the last sign of life; 0 if there never was one. */
export function lastSeen({ last_activity_ts: activity, registered_at: registered }: SessionRow): number {
  return Math.max(activity ?? 0, registered ?? 0);
}

/** Why an alias must not be taken from this session; null if it may. */
export function whyHeld(row: SessionRow, alive: boolean | null, now: number): string | null {
  if (alive) return row.pid ? `its process ${row.pid} runs` : 'it was active less than 5 min ago';
  // A process without a number that anyone could look for cannot keep its alias by it.
  if (alive === false || row.pid === 0) return null;
  const quiet = now / 1000 - lastSeen(row);
  // A future time is no sign of life: a clock was turned back, or another program counts in milliseconds.
  if (Math.abs(quiet) >= UNPROVEN_S) return null;
  return `seen ${quiet < 60 ? 'just now' : `${Math.floor(quiet / 60)} min ago`}; without a process it keeps its alias for an hour`;
}

/** The process of a row, with its start time: its number alone could become another's. 0: it runs where nobody else sees it. */
export function processFields(pid: number | undefined): Pick<SessionRow, 'pid' | 'pid_start_time'> {
  if (pid === 0) return { pid };
  const start = pid === undefined ? null : platform.processStart(pid);
  return start === null ? {} : { pid, ...(/^\d+$/.test(start) && { pid_start_time: Number(start) }) };
}
