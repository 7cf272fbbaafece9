import { statSync, watch } from 'node:fs';
import type { FSWatcher } from 'node:fs';
import type { Watch } from './spool.ts';

/** How often a watcher looks by itself, in case a file event was lost. */
const LOOK_MS = 2000;

/** Calls back after anything may have come into a folder, until closed. */
export function watchFolder(folder: string, onArrival: () => void): Watch {
  let closed = false;
  const arrived = (): void => {
    if (!closed) onArrival();
  };
  let seen = statSync(folder).mtimeMs;
  const watcher = fileEvents(folder, arrived);
  const timer = setInterval(() => {
    const now = statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? seen;
    if (now !== seen) arrived();
    seen = now;
  }, LOOK_MS);
  return {
    close() {
      closed = true;
      clearInterval(timer);
      watcher?.close();
    },
  };
}

/** File events, or null where the system has no more of them to give: then looking by ourselves must do. */
function fileEvents(folder: string, arrived: () => void): FSWatcher | null {
  try {
    return watch(folder, arrived);
  } catch {
    return null;
  }
}
