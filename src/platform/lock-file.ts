import { closeSync, openSync } from 'node:fs';
import { libc } from './libc.ts';

const LOCK_EX = 2;
const LOCK_NB = 4;

/**
 * Runs `act` while this process alone holds the lock file. The kernel frees the lock when its holder dies, so no lock gets stale.
 * `act` must not await: another caller in the same process would wait forever.
 */
export function locked<T>(path: string, act: () => T): T {
  const fd = openSync(path, 'a', 0o600);
  try {
    const failed = libc().flock(fd, LOCK_EX);
    if (failed !== 0) throw Object.assign(new Error(`flock failed on ${path}`), { code: 'ENOLCK', path });
    return act();
  } finally {
    closeSync(fd);
  }
}

/** A lock file that this process holds until it calls `release` or dies. */
export interface HeldLock {
  release(): void;
}

/** Takes the lock file without waiting and keeps it; null if another process has it. Children do not inherit it. */
export function holdLock(path: string): HeldLock | null {
  const fd = openSync(path, 'a', 0o600);
  if (libc().flock(fd, LOCK_EX | LOCK_NB) !== 0) {
    closeSync(fd);
    return null;
  }
  let held = true;
  return {
    release() {
      if (held) closeSync(fd);
      held = false;
    },
  };
}
