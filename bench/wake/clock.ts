import { dlopen, FFIType, ptr } from 'bun:ffi';

const isMac = process.platform === 'darwin';
const MONOTONIC = isMac ? 6 : 1;
const { symbols } = dlopen(isMac ? 'libSystem.dylib' : 'libc.so.6', {
  clock_gettime: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
});
const time = new BigInt64Array(2);

/** Milliseconds on a clock that all processes of this machine share: the runtime's own begins again in each of them. */
export function sharedClock(): number {
  symbols.clock_gettime(MONOTONIC, ptr(time));
  return Number(time[0]) * 1000 + Number(time[1]) / 1e6;
}
