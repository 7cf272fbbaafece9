import { platform } from './os.ts';

/**
 * The name under which a reader holds copies. A process's name carries what proves its death (boot, process space, pid,
 * start time), so its copies are free at once when it dies; a bearer's name outlives processes and is freed by time alone.
 * A bearer with a `process` is freed by that process's death too.
 */
export function newHolder(bearer: boolean | string, process?: number): string {
  if (typeof bearer === 'string') return process ? `${nameOf(process)}.bearer-${bearer}` : `bearer.${bearer}`;
  // The global: importing node:crypto costs 3 ms at every start.
  const unique = crypto.randomUUID().slice(0, 13);
  return bearer ? `bearer.${unique}` : `${here()}.${unique}`;
}

/** A bearer's name, which any process may use that knows it. */
export function isBearer(holder: string | null): boolean {
  return holder !== null && (holder.startsWith('bearer.') || holder.includes('.bearer-'));
}

/** True only if it is certain that the very process that took this name still runs. Time frees a bearer even then. */
export function isHolderAlive(holder: string): boolean {
  if (isBearer(holder)) return false;
  const [boot, space, pid, start] = holder.split('.');
  if (boot !== platform.bootId() || space !== platform.processSpace() || start === undefined) return false;
  return start !== 'unknown' && platform.processStart(Number(pid)) === start;
}

/** True only if it is certain that nobody holds this any more. */
export function isDead(holder: string): boolean {
  const [boot, space, pid, start] = holder.split('.');
  if (boot === 'bearer' || pid === undefined) return false;
  if (boot !== platform.bootId()) return true;
  // Another container's processes have numbers of their own: from here nobody can tell.
  if (space !== platform.processSpace()) return false;
  const running = platform.processStart(Number(pid));
  return running === null || (running !== 'unknown' && start !== 'unknown' && running !== start);
}

/** `isDead` for a look at many copies in one moment: each holder is asked after once. */
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
