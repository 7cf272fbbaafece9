import type { Env } from '../core/env.ts';
import { closeSync, mkdirSync, openSync, readFileSync, renameSync, statSync } from 'node:fs';
import { explained } from '../core/disk.ts';
import { ownCommand } from './program.ts';

/** A longer log is renamed at the next start. One older log is kept. */
const LOG_BYTES = 5_000_000;
const LOOK_MS = 10;

interface Order<T> {
  /** The arguments of the program. */
  words: readonly string[];
  env: Env;
  cwd: string;
  log: string;
  /** The longest time until it must be ready. */
  startMs: number;
  /** Null while the process with this pid is not ready. */
  ready(pid: number): T | null | Promise<T | null>;
}

/** A process that did not become ready. If it was late, it got SIGTERM. */
interface NotReady {
  ready: null;
  isLate: boolean;
  exitCode: number | null;
  /** The last line of its log: usually the reason. */
  said: string;
}

/** Starts this program again in the background, with a log, and waits until it is ready. It keeps running when this terminal closes. */
export async function startInBackground<T>(order: Order<T>): Promise<{ ready: T } | NotReady> {
  const { fd, from } = openLog(order.log);
  const child = Bun.spawn([...ownCommand(), ...order.words], {
    argv0: 'parley',
    env: order.env,
    cwd: order.cwd,
    stdio: ['ignore', fd, fd],
    detached: true,
  });
  closeSync(fd);
  const isGone = (): boolean => child.exitCode !== null || child.signalCode !== null;
  for (const end = Date.now() + order.startMs; Date.now() < end && !isGone(); await Bun.sleep(LOOK_MS)) {
    const ready = await order.ready(child.pid);
    if (ready === null) continue;
    child.unref();
    return { ready };
  }
  const isLate = !isGone();
  if (isLate) child.kill('SIGTERM');
  const said = readFileSync(order.log).subarray(from).toString().trimEnd().split('\n').at(-1) ?? '';
  return { ready: null, isLate, exitCode: child.exitCode, said: said.replace(/^(parley|error): /, '') };
}

function openLog(log: string): { fd: number; from: number } {
  const folder = log.slice(0, log.lastIndexOf('/'));
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const size = statSync(log, { throwIfNoEntry: false })?.size ?? 0;
    if (size > LOG_BYTES) renameSync(log, `${log}.1`);
    return { fd: openSync(log, 'a', 0o600), from: size > LOG_BYTES ? 0 : size };
  } catch (error) {
    throw explained(error, folder, 'nothing was started');
  }
}
