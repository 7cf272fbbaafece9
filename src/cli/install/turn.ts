import { lstatSync, mkdirSync } from 'node:fs';
import { locked } from '../../storage/lock-file.ts';
import type { Env } from '../../platform/env.ts';

/** One installer after the other: two at once would each write down only what it did itself. */
export function inTurn<T>(env: Env, act: () => T): T {
  const folder = turnFolder(env);
  return folder === null ? act() : locked(`${folder}/parley-install.lock`, act);
}

/** A place that is ours alone and is no part of the home: what is undone should leave nothing there. Null if there is none. */
function turnFolder(env: Env): string | null {
  const uid = process.getuid?.();
  const folder = env['XDG_RUNTIME_DIR'] || `${env['TMPDIR'] || '/tmp'}/parley-${uid ?? 0}`;
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch {
    // It is there, or cannot be made: the next look tells.
  }
  const found = lstatSync(folder, { throwIfNoEntry: false });
  return found?.isDirectory() && found.uid === uid ? folder : null;
}
