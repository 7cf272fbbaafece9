import {
  renameSync,
  rmSync,
  writeFileSync,
  closeSync,
  fsyncSync,
  openSync,
  lstatSync,
  statSync,
  constants,
  fstatSync,
  readFileSync,
  realpathSync,
} from 'node:fs';
import { codeOf, NoPlainFile } from '../core/disk.ts';

/**
 * Replaces a small file by one for this user only: a reader finds the old or the new text. With `flush` that holds for a crash of the
 * machine, too. A link is replaced, not followed.
 */
export function replaceFile(path: string, text: string | Uint8Array, { flush = false } = {}): void {
  const draft = `${path}.${process.pid}.tmp`;
  // What is there was left by a process that was killed, or is a link of another user.
  rmSync(draft, { force: true });
  writeFileSync(draft, text, { mode: 0o600, flag: 'wx', flush });
  renameSync(draft, path);
  if (flush) flushFolder(path.slice(0, path.lastIndexOf('/')));
}

/**
 * Flushes an open file to the disk. Only a flush that a signal interrupted is tried again: after any other failure the system may
 * have dropped what it could not write, and would report success.
 */
export function flush(fd: number): void {
  for (;;) {
    try {
      return fsyncSync(fd);
    } catch (error) {
      if (codeOf(error) !== 'EINTR') throw error;
    }
  }
}

/** Renames in this folder are on disk when it returns. */
export function flushFolder(path: string): void {
  const fd = openSync(path, 'r');
  try {
    flush(fd);
  } finally {
    closeSync(fd);
  }
}

/** Changes whenever the file does, or another takes its place; empty if there is none. */
export function stampOf(path: string, isLinkFollowed = false): string {
  const stat = isLinkFollowed ? statSync : lstatSync;
  // Big integers: some file systems number their files so high that a plain number would be rounded.
  const found = stat(path, { bigint: true, throwIfNoEntry: false });
  return found ? `${found.ino} ${found.size} ${found.mtimeNs} ${found.ctimeNs}` : '';
}

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
/** No message that we accept is larger, however its body is written, and no record. */
const LARGEST_BYTES = 64 * 1024 * 1024;
/** A file with a whole mailbox in it may be larger. */
export const LARGEST_LIST_BYTES = 512 * 1024 * 1024;

/**
 * The bytes of a file that another program may have put there. A pipe, a device, a folder or a file larger than any of ours is not read:
 * it throws what `isNoPlainFile` knows. It waits for nothing.
 */
export function readPlain(path: string, links: 'follow' | 'refuse' = 'refuse', largest = LARGEST_BYTES): Buffer {
  const fd = openSync(path, O_RDONLY | O_NONBLOCK | (links === 'refuse' ? O_NOFOLLOW : 0));
  try {
    refuseOdd(fd, path, largest);
    return readFileSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Throws what `isNoPlainFile` knows if that is no file of ours to read. */
export function refuseOdd(fd: number, path: string, largest = LARGEST_BYTES): void {
  const stat = fstatSync(fd);
  if (!stat.isFile()) throw new NoPlainFile(`${path} is no plain file`);
  if (stat.size > largest) throw new NoPlainFile(`${path} is larger than ${largest} bytes`);
}

/** A path without links; as it is, if nothing is there or it cannot be looked at. */
export function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
