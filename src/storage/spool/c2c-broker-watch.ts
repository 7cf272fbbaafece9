import { mkdirSync, watch } from 'node:fs';
import type { FSWatcher } from 'node:fs';
import { stampOf } from '../file-stamp.ts';
import type { Watch } from './spool.ts';

/** How often a watcher looks by itself, in case a file event was lost. */
const LOOK_MS = 2000;

/** Calls back after a file of a folder may have changed or been replaced, until closed. Which file it is may change meanwhile. */
export function watchFile(folder: string, path: () => string, onChange: () => void): Watch {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  let closed = false;
  let seen = stampOf(path());
  const look = (): void => {
    const now = stampOf(path());
    if (closed || now === seen) return;
    seen = now;
    onChange();
  };
  const watcher = fileEvents(folder, (name) => {
    if (name === null || path().endsWith(`/${name}`)) look();
  });
  const timer = setInterval(look, LOOK_MS);
  return {
    close() {
      closed = true;
      clearInterval(timer);
      watcher?.close();
    },
  };
}

/** File events, or null where the system has no more of them to give: then looking by ourselves must do. */
function fileEvents(folder: string, changed: (name: string | null) => void): FSWatcher | null {
  try {
    return watch(folder, (_event, name) => changed(name));
  } catch {
    return null;
  }
}
