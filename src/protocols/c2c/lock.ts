import { FFIType } from 'bun:ffi';
import { closeSync, constants, fstatSync, openSync, statSync } from 'node:fs';
import { Refusal } from '../../core/refusal.ts';
import { isNoPlainFile } from '../../core/disk.ts';
import { lastError, openLibc, once } from '../../platform/libc.ts';

const F_LOCK = 1;
const EINTR = 4;
/** Never follow a link or wait for a pipe: other programs can write into the folder. */
const { O_RDWR, O_CREAT, O_APPEND, O_NOFOLLOW, O_NONBLOCK } = constants;

/** The lock files that this process holds: path → device and inode. */
const held = new Map<string, string>();

/**
 * Runs `act` while this process alone holds the lock file, among all programs that lock the whole file with `lockf`. If a holder dies, the kernel
 * releases the lock, and the file stays. Waiting for a lock blocks the whole process: keep `act` short.
 *
 * A `lockf` lock belongs to the process, and closing any descriptor of the file releases it. So a lock file that we hold must not be opened a
 * second time: that is a bug of ours, and it throws. For the same reason nothing inside may await, and no worker may take these locks.
 * spec: c2c#locks
 */
export function withLock<T>(path: string, act: () => T): T {
  const release = take(path);
  try {
    return act();
  } finally {
    release();
  }
}

/** Holds the lock `gate` until the lock that `which` names is taken. So no holder of the gate can change what `which` has read. */
export function withLockBehind<T>(gate: string, which: () => string, act: (path: string) => T): T {
  const { path, release } = withLock(gate, () => {
    const path = which();
    return { path, release: take(path) };
  });
  try {
    return act(path);
  } finally {
    release();
  }
}

function take(path: string): () => void {
  refuseReentry(path);
  const fd = openPlain(path);
  try {
    waitFor(fd, path);
    const { dev, ino } = fstatSync(fd);
    held.set(path, `${dev}:${ino}`);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  return () => {
    held.delete(path);
    closeSync(fd);
  };
}

function refuseReentry(path: string): void {
  if (held.size === 0) return;
  // Compare files, not only paths: one file may have two paths, and opening and closing it again would release the lock.
  const found = statSync(path, { throwIfNoEntry: false });
  const again = held.has(path) || (found && [...held.values()].includes(`${found.dev}:${found.ino}`));
  if (again) throw new Error(`${path} is locked by this very process: locks of one file do not nest`);
}

/** Opens a file for reading and appending, and creates it if it is missing. Refuses anything but a plain file. */
export function openPlain(path: string): number {
  let fd: number | undefined;
  try {
    fd = openSync(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK, 0o600);
    if (fstatSync(fd).isFile()) return fd;
  } catch (error) {
    if (!isNoPlainFile(error)) throw error;
  }
  if (fd !== undefined) closeSync(fd);
  throw new Refusal('storage_failed', `${path} is not a plain file, so nothing was changed: move it away`);
}

function waitFor(fd: number, path: string): void {
  while (libc().lockf(fd, F_LOCK, 0) !== 0) {
    const code = lastError();
    if (code !== EINTR) throw new Error(`lockf failed on ${path} with error ${code}`);
  }
}

const libc = once(() => openLibc({ lockf: { args: [FFIType.i32, FFIType.i32, FFIType.i64], returns: FFIType.i32 } }));
