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
 * Replaces a small file by one that only this user can read. A reader finds the old or the new text, with `flush` even after a crash of
 * the machine. A link is replaced, not followed.
 */
export function replaceFile(path: string, text: string | Uint8Array, { flush = false } = {}): void {
  const draft = `${path}.${process.pid}.tmp`;
  // A file here was left by a killed process, or is a link that another user made.
  rmSync(draft, { force: true });
  writeFileSync(draft, text, { mode: 0o600, flag: 'wx', flush });
  renameSync(draft, path);
  if (flush) flushFolder(path.slice(0, path.lastIndexOf('/')));
}

/**
 * Flushes an open file to the disk. Only a flush that a signal interrupted is tried again: after any other failure the system may have
 * dropped the unwritten data, and the next flush would report success.
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

/** Flushes a folder: renames in it are on disk when this returns. */
export function flushFolder(path: string): void {
  const fd = openSync(path, 'r');
  try {
    flush(fd);
  } finally {
    closeSync(fd);
  }
}

/** A text that changes when the file changes or is replaced; empty if there is no file. */
export function stampOf(path: string, isLinkFollowed = false): string {
  const stat = isLinkFollowed ? statSync : lstatSync;
  // Big integers: inode numbers of some file systems are too large for a number.
  const found = stat(path, { bigint: true, throwIfNoEntry: false });
  return found ? `${found.ino} ${found.size} ${found.mtimeNs} ${found.ctimeNs}` : '';
}

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
/** Larger than any message or record that we accept. */
const LARGEST_BYTES = 64 * 1024 * 1024;
/** The limit for a file that contains a whole mailbox. */
export const LARGEST_LIST_BYTES = 512 * 1024 * 1024;

/**
 * The bytes of a file that another program may have made. For a pipe, a device, a folder or a file larger than `largest` it throws an error
 * that `isNoPlainFile` recognizes. It never waits for a writer.
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

/** Throws an error that `isNoPlainFile` recognizes if the open file is no plain file or too large. */
export function refuseOdd(fd: number, path: string, largest = LARGEST_BYTES): void {
  const stat = fstatSync(fd);
  if (!stat.isFile()) throw new NoPlainFile(`${path} is no plain file`);
  if (stat.size > largest) throw new NoPlainFile(`${path} is larger than ${largest} bytes`);
}

/** The path with its links resolved; the path itself if that fails. */
export function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
