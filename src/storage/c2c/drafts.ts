import { readdirSync, rmSync, statSync } from 'node:fs';
import { ifThere } from '../disk.ts';
import { platform } from '../platform/platform.ts';

/** A draft is renamed within moments: one this old has lost its writer, ours or another program's. */
const OLD_MS = 60 * 60 * 1000;

/** Removes drafts (`<file>.tmp.<pid>`) that killed writers left behind. */
export function sweepDrafts(root: string, now: number): void {
  for (const folder of [root, `${root}/held`]) {
    for (const name of ifThere(() => readdirSync(folder)) ?? []) {
      const pid = /\.tmp\.(\d+)$/.exec(name)?.[1];
      if (pid === undefined || platform.processStart(Number(pid)) !== null) continue;
      const path = `${folder}/${name}`;
      const changed = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? now;
      if (now - changed > OLD_MS) rmSync(path, { force: true });
    }
  }
}
