import { closeSync, fstatSync, openSync, rmSync, statSync } from 'node:fs';
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
    take(fd, path);
    return act();
  } finally {
    closeSync(fd);
  }
}

/**
 * Like `locked`, but removes the lock file when it is no longer needed: `isNeeded` is called after `act`, even if `act` throws. A process that
 * waited for a removed file takes the new one. Every user of such a lock file must use this function.
 */
export function lockedWhileNeeded<T>(path: string, act: () => T, isNeeded: () => boolean): T {
  for (;;) {
    const fd = openSync(path, 'a', 0o600);
    try {
      take(fd, path);
      if (statSync(path, { throwIfNoEntry: false })?.ino !== fstatSync(fd).ino) continue;
      try {
        return act();
      } finally {
        if (!isNeeded()) rmSync(path, { force: true });
      }
    } finally {
      closeSync(fd);
    }
  }
}

function take(fd: number, path: string): void {
  const failed = libc().flock(fd, LOCK_EX);
  if (failed !== 0) throw Object.assign(new Error(`flock failed on ${path}`), { code: 'ENOLCK', path });
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
