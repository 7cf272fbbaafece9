import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';

const PREFIX = 'parley-test-';
const bases = new Map<string, string>();

/** A fresh, empty folder. Nobody has to remove it: the next run clears away what the runs before it left. */
export function temporaryHome(parent = tmpdir()): string {
  let base = bases.get(parent);
  if (!base) {
    clearAway(parent);
    base = `${parent}/${PREFIX}${process.pid}`;
    mkdirSync(base, { recursive: true, mode: 0o700 });
    bases.set(parent, base);
  }
  return mkdtempSync(`${base}/home-`);
}

function clearAway(parent: string): void {
  for (const name of readdirSync(parent)) {
    const run = name.startsWith(PREFIX) ? Number(name.slice(PREFIX.length)) : 0;
    if (run === 0 || isRunning(run)) continue;
    try {
      rmSync(`${parent}/${name}`, { recursive: true, force: true });
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
