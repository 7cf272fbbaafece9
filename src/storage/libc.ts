import { dlopen, FFIType, ptr } from 'bun:ffi';
import { closeSync, openSync } from 'node:fs';
import { once } from './once.ts';
import { platform } from './platform/platform.ts';

const LOCK_EX = 2;
const LOCK_NB = 4;

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

/** A lock file that this process holds until it lets go or dies. */
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

/**
 * Lets this process have as many open files as `wanted`, or as many as the system allows, and returns how many that is.
 * Every connection is an open file.
 */
export function raiseFileLimit(wanted: number): number {
  const { getrlimit, setrlimit } = openLimits();
  const limit = new BigUint64Array(2);
  if (getrlimit(platform.openFiles, ptr(limit)) !== 0) throw new Error('getrlimit failed');
  const [now = 0n, allowed = 0n] = limit;
  const most = BigInt(wanted);
  // Only root may go beyond what is allowed; for others the first try changes nothing.
  const tries: [soft: bigint, hard: bigint][] = [
    [most, allowed > most ? allowed : most],
    [allowed < most ? allowed : most, allowed],
  ];
  for (const [soft, hard] of now < most ? tries : []) {
    if (setrlimit(platform.openFiles, ptr(new BigUint64Array([soft, hard]))) === 0) return Number(soft);
  }
  return Number(now);
}

/**
 * Ends the process at once. A usual exit closes the ledger, and the last to close it copies the whole write-ahead log into the
 * main file with three flushes: too much for a command that sent one message. What was committed is safe either way.
 */
export function exitNow(code: number): never {
  // A build asks which code was run (scripts/build.mjs), and is told at a usual exit.
  if (process.env['BUN_BYTECODE_ORDER_OUT']) process.exit(code);
  libc()._exit(code);
  throw new Error('unreachable');
}

const libc = once(
  () =>
    dlopen(platform.libc, {
      flock: { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 },
      _exit: { args: [FFIType.i32], returns: FFIType.void },
    }).symbols,
);

/** By itself: no short command should look these up. */
function openLimits() {
  return dlopen(platform.libc, {
    getrlimit: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
    setrlimit: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
  }).symbols;
}
