import * as v from 'valibot';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { Schema } from '../core/schema.ts';
import type { Described } from '../core/schema.ts';
import { explained, isMissing } from '../core/disk.ts';
import { isHolderAlive, isDead, newHolder } from './holder.ts';
import { holdLock } from './lock-file.ts';
import { replaceFile } from './files.ts';
import { VERSION } from './program.ts';

/** How long to wait for the lock: `daemonNotice` in another process may hold it for a moment. */
const PATIENCE_MS = 500;

/** The notice of the process that holds the lock, `<path>.json`: for people, for `status` and for `down`. It contains no secret. */
export const DaemonNotice = new Schema(() =>
  v.object({
    v: v.literal(1),
    pid: v.number(),
    /** Proves that this process still runs: its pid may have been given to another process. */
    holder: v.string(),
    since: v.string(),
    version: v.string(),
    doors: v.array(v.object({ name: v.string(), address: v.string() })),
    /** What it finishes before it ends; absent while it works. */
    finishing: v.optional(v.string()),
  }),
);
export type DaemonNotice = Described<typeof DaemonNotice>;

export interface DaemonLock {
  /** True if the last holder died without releasing the lock: its work may be unfinished. */
  readonly afterDeath: boolean;
  /** Writes the addresses of its services into the notice. */
  announce(services: DaemonNotice['doors']): void;
  /** Writes into the notice what it finishes before it ends. */
  finishing(what: string): void;
  /** Removes the notice and frees the lock. */
  release(): void;
}

/**
 * Takes the lock on `<path>.lock`, which one process can hold. The kernel frees it when its holder dies, so files of a dead holder are no
 * obstacle. Null if another process holds it; `daemonNotice` says which.
 */
export async function takeDaemonLock(path: string): Promise<DaemonLock | null> {
  const lock = await patientLock(path);
  if (!lock) return null;
  const afterDeath = existsSync(`${path}.json`);
  let notice: DaemonNotice = {
    v: 1,
    pid: process.pid,
    holder: newHolder(false),
    since: new Date().toISOString(),
    version: VERSION,
    doors: [],
  };
  const write = (changes: Partial<DaemonNotice>): void => {
    notice = { ...notice, ...changes };
    replaceFile(`${path}.json`, `${JSON.stringify(notice, null, 2)}\n`);
  };
  write({});
  return {
    afterDeath,
    announce: (doors) => write({ doors }),
    finishing: (what) => write({ finishing: what }),
    release() {
      rmSync(`${path}.json`, { force: true });
      lock.release();
    },
  };
}

/** The notice of the process that holds the lock; null if no process does. Ignores the notice of a dead process. */
export function daemonNotice(path: string): DaemonNotice | null {
  const notice = readNotice(path);
  if (!notice || isDead(notice.holder)) return null;
  if (isHolderAlive(notice.holder)) return notice;
  // The holder may be in another container: its lock can be seen from here, its processes cannot.
  const lock = holdLock(`${path}.lock`);
  lock?.release();
  return lock ? null : notice;
}

async function patientLock(path: string): Promise<ReturnType<typeof holdLock>> {
  const folder = path.slice(0, path.lastIndexOf('/'));
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    for (const end = Date.now() + PATIENCE_MS; ; await Bun.sleep(20)) {
      const lock = holdLock(`${path}.lock`);
      if (lock || Date.now() > end) return lock;
    }
  } catch (error) {
    throw explained(error, folder, 'nothing was started');
  }
}

function readNotice(path: string): DaemonNotice | null {
  try {
    const notice = DaemonNotice.safeParse(JSON.parse(readFileSync(`${path}.json`, 'utf8')));
    return notice.success ? notice.data : null;
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return null;
    throw error;
  }
}
