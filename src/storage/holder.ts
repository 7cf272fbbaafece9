import { randomBytes } from 'node:crypto';
import { platform } from './platform/platform.ts';

/**
 * The name under which a reader holds copies. A process's name carries what proves its death (boot, pid, start time), so
 * its copies are free at once when it dies; a bearer's name outlives processes and is freed by time alone.
 */
export function newHolder(bearer: boolean): string {
  const unique = randomBytes(6).toString('hex');
  return bearer ? `bearer.${unique}` : `${here()}.${unique}`;
}

/** True only if it is certain that nobody holds this any more. */
export function isDead(holder: string): boolean {
  const [boot, pid, start] = holder.split('.');
  if (boot === 'bearer' || pid === undefined) return false;
  if (boot !== platform.bootId()) return true;
  const running = platform.processStart(Number(pid));
  return running === null || (running !== 'unknown' && start !== 'unknown' && running !== start);
}

let self: string | undefined;
function here(): string {
  self ??= `${platform.bootId()}.${process.pid}.${platform.processStart(process.pid) ?? 'unknown'}`;
  return self;
}
