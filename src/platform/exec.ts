import { FFIType, ptr } from 'bun:ffi';
import { accessSync, constants, readFileSync } from 'node:fs';
import type { Env } from '../core/env.ts';
import { Refusal } from '../core/refusal.ts';
import { lastError, lowerFileLimit, openLibc } from './libc.ts';

/** Bun ignores these signals, and an ignored signal stays ignored after execve. Their numbers are the same on Linux and macOS. */
const IGNORED_BY_BUN = { SIGPIPE: 13, SIGXFSZ: 25 };
const SIG_DFL = 0n;

/**
 * Replaces this process by a program. The program keeps our pid, our terminal and our place among the jobs of the shell, and starts with
 * the signals and limits that it would have if the shell had started it. Never returns; throws if the program cannot be started.
 */
export function execProgram(path: string, argv: readonly (string | Buffer)[], env: Env): never {
  refuseUnlessExecutable(path);
  const { execve, signal } = openLibc({
    execve: { args: [FFIType.ptr, FFIType.ptr, FFIType.ptr], returns: FFIType.i32 },
    signal: { args: [FFIType.i32, FFIType.u64], returns: FFIType.u64 },
  });
  for (const number of Object.values(IGNORED_BY_BUN)) signal(number, SIG_DFL);
  restoreFileLimit();
  const pairs = Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`]));
  const [program, words, variables] = [cString(path), new CStrings(argv), new CStrings(pairs)];
  execve(ptr(program), ptr(words.pointers), ptr(variables.pointers));
  throw new Refusal('unreachable', `${path} does not start (system error ${lastError()})`);
}

/** Lowers this process's limit of open files to its parent's; programs that it starts inherit that. */
export function restoreFileLimit(): void {
  const limit = openFilesOf(process.ppid);
  if (limit !== null) lowerFileLimit(limit);
}

/** Checked first, so that a missing program changes nothing in this process. */
function refuseUnlessExecutable(path: string): void {
  try {
    accessSync(path, constants.X_OK);
  } catch {
    throw new Refusal('unreachable', `${path} cannot be run; check that the file is there and executable`);
  }
}

/** A C array of strings. Keep the object while the pointers are in use: it keeps the texts alive. */
class CStrings {
  readonly texts: Buffer[];
  readonly pointers: BigUint64Array;

  constructor(texts: readonly (string | Buffer)[]) {
    this.texts = texts.map(cString);
    this.pointers = new BigUint64Array([...this.texts.map((text) => BigInt(ptr(text))), 0n]);
  }
}

function cString(text: string | Buffer): Buffer {
  return Buffer.concat([Buffer.from(text), Buffer.from([0])]);
}

/** The limit of open files of a process; null if the system does not report it. */
function openFilesOf(pid: number): number | null {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, 'utf8')) ?? [];
    return soft === undefined ? null : Number(soft);
  } catch {
    return null;
  }
}
