import { dlopen, FFIType, ptr, read } from 'bun:ffi';
import type { FFIFunction, Library, Pointer } from 'bun:ffi';

/** How the C library is called here, and the numbers by which it knows things. Nothing is loaded for them. */
interface System {
  /** It is loaded already, and known by this name. */
  libc: string;
  /** Its function that says where the number of the last error is. */
  errno: '__errno_location' | '__error';
  /** Its number for the limit of open files. */
  openFiles: number;
}

const linux: System = {
  // musl takes every name that begins like this for its own.
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
 * Calls of the C library, for what the runtime lacks or loads too much for. Where it keeps its errors is asked first: to open
 * anything between a call that failed and the question why could change the answer.
 */
export function openLibc<Calls extends Record<string, FFIFunction>>(calls: Calls): Library<Calls>['symbols'] {
  errorPlace();
  return opened(calls);
}

/** A call that it lacks is an error. No second name is tried: one that the system does not know is looked for in the current folder. */
function opened<Calls extends Record<string, FFIFunction>>(calls: Calls): Library<Calls>['symbols'] {
  return dlopen(system.libc, calls).symbols;
}

/** The number of the error of the last call that failed. Ask at once: the next call may change it. */
export function lastError(): number {
  return read.i32(errorPlace());
}

const errorPlace = once(() => {
  const place = libc()[system.errno]?.();
  if (typeof place !== 'number') throw new Error('the C library does not say where its errors stand');
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
 * Lets this process have as many open files as `wanted`, or as many as the system allows, and returns how many that is.
 * Every connection is an open file.
 */
export function raiseFileLimit(wanted: number): number {
  const { getrlimit, setrlimit } = openLimits();
  const limit = new BigUint64Array(2);
  if (getrlimit(system.openFiles, ptr(limit)) !== 0) throw new Error('getrlimit failed');
  const [now = 0n, allowed = 0n] = limit;
  const most = BigInt(wanted);
  // Only root may go beyond what is allowed; for others the first try changes nothing.
  const tries: [soft: bigint, hard: bigint][] = [
    [most, allowed > most ? allowed : most],
    [allowed < most ? allowed : most, allowed],
  ];
  for (const [soft, hard] of now < most ? tries : []) {
    if (setrlimit(system.openFiles, ptr(new BigUint64Array([soft, hard]))) === 0) return Number(soft);
  }
  return Number(now);
}

/** Takes back what the runtime did at its start: it raises the limit of open files for itself. Never raises it. */
export function lowerFileLimit(wanted: number): void {
  const { getrlimit, setrlimit } = openLimits();
  const limit = new BigUint64Array(2);
  if (getrlimit(system.openFiles, ptr(limit)) !== 0) return;
  const [now = 0n, allowed = 0n] = limit;
  if (BigInt(wanted) < now) setrlimit(system.openFiles, ptr(new BigUint64Array([BigInt(wanted), allowed])));
}

/**
 * Ends the process at once. A usual exit closes the journal, and the last to close it copies the whole write-ahead log into the
 * main file with three flushes: too much for a command that sent one message. What was committed is safe either way.
 */
export function exitNow(code: number): never {
  libc()._exit(code);
  throw new Error('unreachable');
}

/** By itself: no short command should look these up. */
function openLimits() {
  return openLibc({
    getrlimit: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
    setrlimit: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
  });
}

/** Makes it when it is first asked for, and gives the same from then on. */
export function once<T>(make: () => T): () => T {
  let made: { it: T } | undefined;
  return () => (made ??= { it: make() }).it;
}
