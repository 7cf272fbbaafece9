import { dlopen, FFIType, ptr, read } from 'bun:ffi';
import type { FFIFunction, Library, Pointer } from 'bun:ffi';

/** The name of the C library and its constants on one system. */
interface System {
  /** The name of the library, which is loaded already. */
  libc: string;
  /** The function that returns the address of the last error number. */
  errno: '__errno_location' | '__error';
  /** The number of the limit of open files (RLIMIT_NOFILE). */
  openFiles: number;
}

const linux: System = {
  // musl also accepts this name as its own.
  libc: 'libc.so.6',
  errno: '__errno_location',
  openFiles: 7,
};

/** Written from the manual pages and not yet run on a Mac. */
const darwin: System = {
  libc: 'libSystem.dylib',
  errno: '__error',
  openFiles: 8,
};

const system: System = process.platform === 'darwin' ? darwin : linux;

/**
 * Opens calls of the C library that Bun lacks, or for which it would load too much. Looks up the address of the last error first: a lookup
 * after a failed call could change the error number.
 */
export function openLibc<Calls extends Record<string, FFIFunction>>(calls: Calls): Library<Calls>['symbols'] {
  errorPlace();
  return opened(calls);
}

/** A missing call is an error. No other library name is tried: the system would look for an unknown name in the current folder. */
function opened<Calls extends Record<string, FFIFunction>>(calls: Calls): Library<Calls>['symbols'] {
  return dlopen(system.libc, calls).symbols;
}

/** The error number of the last failed call. Call this right after it: the next call may change the number. */
export function lastError(): number {
  return read.i32(errorPlace());
}

const errorPlace = once(() => {
  const place = libc()[system.errno]?.();
  if (typeof place !== 'number') throw new Error('the C library returned no address for its error number');
  return place as Pointer;
});

/** The calls that nearly every command makes. */
export const libc = once(() =>
  opened({
    flock: { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 },
    isatty: { args: [FFIType.i32], returns: FFIType.i32 },
    _exit: { args: [FFIType.i32], returns: FFIType.void },
    [system.errno]: { args: [], returns: FFIType.ptr },
  }),
);

/**
 * Raises the limit of open files to `wanted`, or as far as the system allows, and returns the new limit. Every connection is an open file.
 */
export function raiseFileLimit(wanted: number): number {
  const { getrlimit, setrlimit } = openLimits();
  const limit = new BigUint64Array(2);
  if (getrlimit(system.openFiles, ptr(limit)) !== 0) throw new Error('getrlimit failed');
  const [now = 0n, allowed = 0n] = limit;
  const most = BigInt(wanted);
  // Only root may exceed the hard limit; for other users the first try changes nothing.
  const tries: [soft: bigint, hard: bigint][] = [
    [most, allowed > most ? allowed : most],
    [allowed < most ? allowed : most, allowed],
  ];
  for (const [soft, hard] of now < most ? tries : []) {
    if (setrlimit(system.openFiles, ptr(new BigUint64Array([soft, hard]))) === 0) return Number(soft);
  }
  return Number(now);
}

/** Lowers the limit of open files, which Bun raises at its start. Never raises it. */
export function lowerFileLimit(wanted: number): void {
  const { getrlimit, setrlimit } = openLimits();
  const limit = new BigUint64Array(2);
  if (getrlimit(system.openFiles, ptr(limit)) !== 0) return;
  const [now = 0n, allowed = 0n] = limit;
  if (BigInt(wanted) < now) setrlimit(system.openFiles, ptr(new BigUint64Array([BigInt(wanted), allowed])));
}

/**
 * Ends the process at once. A normal exit closes the journal, and the last process to close it copies the whole write-ahead log into the
 * main file with three flushes: too much for a command that sent one message. Committed transactions are safe either way.
 */
export function exitNow(code: number): never {
  libc()._exit(code);
  throw new Error('unreachable');
}

/** Looked up separately from `libc`, so that short commands do not pay for it. */
function openLimits() {
  return openLibc({
    getrlimit: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
    setrlimit: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
  });
}

/** Returns a function that calls `make` at its first call, and returns the same value from then on. */
export function once<T>(make: () => T): () => T {
  let made: { it: T } | undefined;
  return () => (made ??= { it: make() }).it;
}
