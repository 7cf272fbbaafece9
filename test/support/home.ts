import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';

const PREFIX = 'parley-test-';
let base: string | undefined;

/** A fresh, empty folder. Nobody has to remove it: the next run clears away what the runs before it left. */
export function temporaryHome(): string {
  if (!base) {
    clearAway();
    base = `${tmpdir()}/${PREFIX}${process.pid}`;
    mkdirSync(base, { recursive: true, mode: 0o700 });
  }
  return mkdtempSync(`${base}/home-`);
}

function clearAway(): void {
  for (const name of readdirSync(tmpdir())) {
    const run = name.startsWith(PREFIX) ? Number(name.slice(PREFIX.length)) : 0;
    if (run === 0 || isRunning(run)) continue;
    try {
      rmSync(`${tmpdir()}/${name}`, { recursive: true, force: true });
    } catch {
      // Not ours, or still mounted: it may stay.
    }
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
