import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';

const PROJECT = new URL('..', import.meta.url).pathname;

/** Where the homes of one run stand, and on what kind of disk. */
export interface Place {
  disk: string;
  fresh(): string;
  close(): void;
}

/**
 * A folder on the project's own disk: the system's folder for temporary files may lie in memory, where a flush costs nothing.
 * Every home is a fresh one, and nothing is deleted before the end: file systems are slow after mass deletions.
 */
export function openPlace(): Place {
  const sameDisk = statSync(tmpdir()).dev === statSync(PROJECT).dev;
  const above = sameDisk ? tmpdir() : `${PROJECT}.cache`;
  mkdirSync(above, { recursive: true });
  const root = mkdtempSync(`${above}/parley-bench-`);
  let homes = 0;
  return {
    disk: fileSystemOf(root),
    fresh() {
      homes += 1;
      mkdirSync(`${root}/${homes}`);
      return `${root}/${homes}`;
    },
    close: () => rmSync(root, { recursive: true, force: true }),
  };
}

/** The kind of the file system below a path: of all mounts, the one with the longest matching name. */
export function fileSystemOf(path: string): string {
  try {
    const mounts = readFileSync('/proc/mounts', 'utf8')
      .split('\n')
      .map((line) => line.split(' '))
      .filter(([, at = '']) => at !== '' && `${path}/`.startsWith(at === '/' ? '/' : `${at}/`));
    const [nearest] = mounts.toSorted(([, a = ''], [, b = '']) => b.length - a.length);
    return nearest?.[2] ?? 'unknown file system';
  } catch {
    return 'unknown file system';
  }
}
