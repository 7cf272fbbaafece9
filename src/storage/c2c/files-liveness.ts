import type { SessionRow } from '../../protocol/c2c.ts';
import { platform } from '../platform/platform.ts';

/** A row that names no process holds its alias for this long after its last sign of life. */
const UNPROVEN_S = 3600;

/**
 * Does the process of a session run? Null where nothing proves it either way: a row without a process, or one that does not say when
 * its process started (the number may be another's by now). spec: c2c#alive
 */
export function isAlive({ pid, pid_start_time: start }: SessionRow): boolean | null {
  if (pid === undefined) return null;
  const runs = Number.isSafeInteger(pid) && pid > 0 ? platform.processStart(pid) : null;
  if (runs === null) return false;
  if (start === undefined || runs === 'unknown') return null;
  return runs === String(start);
}

/** Seconds since 1970 of the last sign of life; 0 if there never was one. */
export function lastSeen({ last_activity_ts: activity, registered_at: registered }: SessionRow): number {
  return Math.max(activity ?? 0, registered ?? 0);
}

/** Why an alias must not be taken from this session; null if it may. */
export function holds(row: SessionRow, now: number): string | null {
  const alive = isAlive(row);
  if (alive) return `its process ${row.pid} runs`;
  if (alive === false) return null;
  const quiet = now / 1000 - lastSeen(row);
  // A time to come is no sign of life: a clock was turned back, or somebody counts in milliseconds.
  if (Math.abs(quiet) >= UNPROVEN_S) return null;
  return `seen ${quiet < 60 ? 'just now' : `${Math.floor(quiet / 60)} min ago`}; without a process it keeps its alias for an hour`;
}

/** The process that a row should name, as the registry writes it: with its start, or its number could become another's. */
export function processFields(pid: number | undefined): Pick<SessionRow, 'pid' | 'pid_start_time'> {
  if (pid === undefined) return {};
  const start = platform.processStart(pid);
  if (start === null) return {};
  return { pid, ...(/^\d+$/.test(start) && { pid_start_time: Number(start) }) };
}
