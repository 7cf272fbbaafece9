import { dlopen, FFIType, read } from 'bun:ffi';

const { i32, i64, ptr } = FFIType;
const COMMON = { flock: { args: [i32, i32], returns: i32 } } as const;
const LINUX = {
  // Numbers only: what follows the first one depends on the call.
  syscall: { args: [i64, i64, i64, i64], returns: i64 },
  ioctl: { args: [i32, i64, ptr], returns: i32 },
  __errno_location: { args: [], returns: ptr },
} as const;

/** The C library: musl takes this name for its own too. A second one would be looked for in the current folder. */
const NAME = process.platform === 'darwin' ? 'libSystem.dylib' : 'libc.so.6';

let common: ReturnType<typeof openCommon> | undefined;
let linux: ReturnType<typeof openLinux> | undefined;

/** The few calls of the system that the runtime lacks. */
export function libc(): ReturnType<typeof openCommon>['symbols'] {
  common ??= openCommon();
  return common.symbols;
}

/** A call of Linux by its number: its answer, or the number of the error below zero. */
export function systemCall(number: number, ...given: [number, number, number]): number {
  linux ??= openLinux();
  const [first, second, third] = given;
  const answer = Number(linux.symbols.syscall(BigInt(number), BigInt(first), BigInt(second), BigInt(third)));
  if (answer !== -1) return answer;
  const place = linux.symbols.__errno_location();
  return place === null ? -1 : -read.i32(place);
}

/** What a device says to a question that fills this memory; false if it says nothing. */
export function askDevice(fd: number, question: number, answer: Uint8Array): boolean {
  linux ??= openLinux();
  return linux.symbols.ioctl(fd, BigInt(question), answer) === 0;
}

const openCommon = () => dlopen(NAME, COMMON);
const openLinux = () => dlopen(NAME, LINUX);
