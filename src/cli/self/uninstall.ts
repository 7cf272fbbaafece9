import { renameSync, rmdirSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { explained } from '../../storage/disk.ts';
import { readManifest, whatIs, writeManifest } from './manifest.ts';

export interface Uninstalled {
  removed: string[];
  /** Programs of others that stand in their old place again. */
  restored: string[];
  /** What was ours and has been changed by somebody since. */
  left: string[];
}

/** Removes exactly what was installed, and nothing that somebody has put in its place since. */
export function uninstall(manifest: string): Uninstalled {
  const result: Uninstalled = { removed: [], restored: [], left: [] };
  const { files, folders } = readManifest(manifest);
  for (const { path, is, before } of files.toReversed()) {
    try {
      const there = whatIs(path);
      if (there === is) {
        rmSync(path);
        result.removed.push(path);
      } else if (there !== null) result.left.push(path);
      if (before && whatIs(path) === null && whatIs(before) !== null) {
        renameSync(before, path);
        result.restored.push(path);
      }
    } catch (error) {
      throw explained(error, path, 'not everything was removed');
    }
  }
  writeManifest(manifest, { files: [], folders: [] });
  for (const folder of [...folders, dirname(manifest)]) removeIfEmpty(folder);
  return result;
}

/** A folder that was made for what is removed goes with it. */
function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // It holds something else, or it is not there.
  }
}
