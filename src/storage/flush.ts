import { closeSync, fsyncSync, openSync } from 'node:fs';
import { codeOf } from './disk.ts';

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
