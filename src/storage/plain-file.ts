import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { NoPlainFile } from './disk.ts';

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
