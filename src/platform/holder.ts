import { platform } from './os.ts';

/**
 * Makes the name under which a reader holds copies. A process's name contains what proves its death (boot id, process space, pid, start
 * time), so its copies are free as soon as it dies. A bearer's name outlives processes: only time frees its copies. The death of the
 * `process` of a bearer frees them too.
 */
export function newHolder(bearer: boolean | string, process?: number): string {
  if (typeof bearer === 'string') return process ? `${nameOf(process)}.bearer-${bearer}` : `bearer.${bearer}`;
  // The global: importing node:crypto costs 3 ms at every start.
  const unique = crypto.randomUUID().slice(0, 13);
  return bearer ? `bearer.${unique}` : `${here()}.${unique}`;
}

/** True for a bearer's name, which any process may use that knows it. */
export function isBearer(holder: string | null): boolean {
  return holder !== null && (holder.startsWith('bearer.') || holder.includes('.bearer-'));
}

/** True only if it is certain that the process that made this name still runs. Never true for a bearer: time frees its copies anyway. */
export function isHolderAlive(holder: string): boolean {
  if (isBearer(holder)) return false;
  const [boot, space, pid, start] = holder.split('.');
  if (boot !== platform.bootId() || space !== platform.processSpace() || start === undefined) return false;
  return start !== 'unknown' && platform.processStart(Number(pid)) === start;
}

/** True only if it is certain that the holder is dead. */
export function isDead(holder: string): boolean {
  const [boot, space, pid, start] = holder.split('.');
  if (boot === 'bearer' || pid === undefined) return false;
  if (boot !== platform.bootId()) return true;
  // Another container has its own pids: from here its processes cannot be checked.
  if (space !== platform.processSpace()) return false;
  const running = platform.processStart(Number(pid));
  return running === null || (running !== 'unknown' && start !== 'unknown' && running !== start);
}

/** An `isDead` for many copies at one moment: it checks each holder once. */
export function deathsNow(): typeof isDead {
  const known = new Map<string, boolean>();
  return (holder) => {
    const dead = known.get(holder) ?? isDead(holder);
    known.set(holder, dead);
    return dead;
  };
}

let self: string | undefined;
function here(): string {
  self ??= nameOf(process.pid);
  return self;
}

function nameOf(pid: number): string {
  return `${platform.bootId()}.${platform.processSpace()}.${pid}.${platform.processStart(pid) ?? 'unknown'}`;
}
