import { FFIType } from 'bun:ffi';
import { closeSync, constants, fstatSync, openSync, statSync } from 'node:fs';
import { Refusal } from '../../protocol/refusal.ts';
import { isNoPlainFile } from '../disk.ts';
import { lastError, openLibc } from '../libc.ts';
import { once } from '../once.ts';

const F_LOCK = 1;
const EINTR = 4;
/** Follow no link and wait for no pipe: the folder is open to other programs. */
const { O_RDWR, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;
const CAREFULLY = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK;

/** The lock files that this process holds now, by path and by what they are. */
const held = new Map<string, string>();

/**
 * Runs `act` while this process alone holds the lock file, among all programs that take it with `lockf` on the whole file. The
 * kernel lets go when a holder dies, and the file stays. Waiting for it stops the whole process: keep it short inside.
 *
 * Such a lock belongs to the process, and closing any descriptor of the file gives it up. So a file that we hold is never opened a
 * second time: that would be our bug, and it throws. For the same reason nothing inside may await, and no worker may take these
 * locks. spec: c2c#locks
 */
export function withLock<T>(path: string, act: () => T): T {
  const lock = take(path);
  try {
    return act();
  } finally {
    lock.release();
  }
}

/**
 * Takes `gate` only to find out which lock is meant, and lets go of it as soon as that one is taken. So nobody who holds the gate can
 * change what it guards between our look and our act.
 */
export function withLockBehind<T>(gate: string, which: () => string, act: (path: string) => T): T {
  const door = take(gate);
  let path: string;
  let lock: Held;
  try {
    path = which();
    lock = take(path);
  } finally {
    door.release();
  }
  try {
    return act(path);
  } finally {
    lock.release();
  }
}

interface Held {
  release(): void;
}

function take(path: string): Held {
  refuseReentry(path);
  const { fd, file } = openLock(path);
  try {
    waitFor(fd, path);
    held.set(path, file);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  return {
    release() {
      held.delete(path);
      closeSync(fd);
    },
  };
}

function refuseReentry(path: string): void {
  if (held.size === 0) return;
  // The same file may have two paths. Once it is opened again it is too late.
  const found = statSync(path, { throwIfNoEntry: false });
  const again = held.has(path) || (found && [...held.values()].includes(`${found.dev}:${found.ino}`));
  if (again) throw new Error(`${path} is locked by this very process: locks of one file do not nest`);
}

/** The open lock file, and which file it is. */
function openLock(path: string): { fd: number; file: string } {
  let fd: number | undefined;
  try {
    fd = openSync(path, CAREFULLY, 0o600);
    const found = fstatSync(fd);
    if (found.isFile()) return { fd, file: `${found.dev}:${found.ino}` };
  } catch (error) {
    if (!isNoPlainFile(error)) throw error;
  }
  if (fd !== undefined) closeSync(fd);
  throw new Refusal('storage_failed', `${path} is no plain file, so nothing was changed: move it away`);
}

function waitFor(fd: number, path: string): void {
  while (libc().lockf(fd, F_LOCK, 0) !== 0) {
    const code = lastError();
    if (code !== EINTR) throw new Error(`lockf failed on ${path} with error ${code}`);
  }
}

const libc = once(() => openLibc({ lockf: { args: [FFIType.i32, FFIType.i32, FFIType.i64], returns: FFIType.i32 } }));
