import { dlopen, FFIType } from 'bun:ffi';
import { closeSync, openSync } from 'node:fs';
import { platform } from './platform/platform.ts';

const LOCK_EX = 2;

/**
 * Runs `act` while this process alone holds the lock file. The kernel lets go when a holder dies, so there is no stale lock.
 * Nothing inside may await: another caller of the same process would wait for ever.
 */
export function locked<T>(path: string, act: () => T): T {
  const fd = openSync(path, 'a', 0o600);
  try {
    const failed = libc().flock(fd, LOCK_EX);
    if (failed !== 0) throw new Error(`flock failed on ${path}`);
    return act();
  } finally {
    closeSync(fd);
  }
}

/**
 * Ends the process at once. A usual exit closes the ledger, and the last to close it copies the whole write-ahead log into the
 * main file with three flushes: too much for a command that sent one message. What was committed is safe either way.
 */
export function exitNow(code: number): never {
  libc()._exit(code);
  throw new Error('unreachable');
}

type Libc = ReturnType<typeof open>;
let opened: Libc | undefined;
function libc(): Libc {
  opened ??= open();
  return opened;
}

function open() {
  return dlopen(platform.libc, {
    flock: { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 },
    _exit: { args: [FFIType.i32], returns: FFIType.void },
  }).symbols;
}
