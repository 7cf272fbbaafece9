import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import * as v from 'valibot';
import { Schema } from '../protocol/schema.ts';
import type { Described } from '../protocol/schema.ts';
import { explained, isMissing } from '../storage/disk.ts';
import { isAlive, isDead, newHolder } from '../storage/holder.ts';
import { holdLock } from '../storage/lock-file.ts';
import { VERSION } from './program.ts';

/** Whoever only looks may have the lock for a moment. */
const PATIENCE_MS = 500;

/** The notice of whoever is on duty, `<duty>.json`: for people, for `status` and for `down`. It holds no secret. */
export const Notice = new Schema(() =>
  v.object({
    v: v.literal(1),
    pid: v.number(),
    /** Proves that this very process still runs: a pid alone may be another's by now. */
    holder: v.string(),
    since: v.string(),
    version: v.string(),
    doors: v.array(v.object({ name: v.string(), address: v.string() })),
    /** What it still has to finish before it ends; absent while it works. */
    finishing: v.optional(v.string()),
  }),
);
export type Notice = Described<typeof Notice>;

export interface Duty {
  /** Whoever was on duty before did not leave: it may have left things undone. */
  readonly afterDeath: boolean;
  /** Says where it can be reached. */
  announce(doors: Notice['doors']): void;
  /** Says what keeps it from ending. */
  finishing(what: string): void;
  /** Takes the notice down and lets the next one in. */
  leave(): void;
}

/**
 * Goes on duty, which only one process can be: the kernel keeps the lock `<duty>.lock` and frees it when its holder dies, so
 * what a dead one left behind is no obstacle. Null if somebody else is on duty; `whoIsOnDuty` says who.
 */
export async function goOnDuty(duty: string): Promise<Duty | null> {
  const lock = await patientLock(duty);
  if (!lock) return null;
  const afterDeath = existsSync(`${duty}.json`);
  let notice: Notice = {
    v: 1,
    pid: process.pid,
    holder: newHolder(false),
    since: new Date().toISOString(),
    version: VERSION,
    doors: [],
  };
  const hang = (changes: Partial<Notice>): void => {
    notice = { ...notice, ...changes };
    writeFileSync(`${duty}.json.${process.pid}`, `${JSON.stringify(notice, null, 2)}\n`, { mode: 0o600 });
    renameSync(`${duty}.json.${process.pid}`, `${duty}.json`);
  };
  hang({});
  return {
    afterDeath,
    announce: (doors) => hang({ doors }),
    finishing: (what) => hang({ finishing: what }),
    leave() {
      rmSync(`${duty}.json`, { force: true });
      lock.release();
    },
  };
}

/** The notice of whoever is on duty; null if nobody is. A notice that a dead one left is nobody's. */
export function whoIsOnDuty(duty: string): Notice | null {
  const notice = readNotice(duty);
  if (!notice || isDead(notice.holder)) return null;
  if (isAlive(notice.holder)) return notice;
  // Another container: its lock can be seen from here, its processes cannot.
  const lock = holdLock(`${duty}.lock`);
  lock?.release();
  return lock ? null : notice;
}

async function patientLock(duty: string): Promise<ReturnType<typeof holdLock>> {
  try {
    mkdirSync(duty.slice(0, duty.lastIndexOf('/')), { recursive: true, mode: 0o700 });
    for (const end = Date.now() + PATIENCE_MS; ; await Bun.sleep(20)) {
      const lock = holdLock(`${duty}.lock`);
      if (lock || Date.now() > end) return lock;
    }
  } catch (error) {
    throw explained(error, duty.slice(0, duty.lastIndexOf('/')), 'nothing was started');
  }
}

function readNotice(duty: string): Notice | null {
  try {
    const notice = Notice.safeParse(JSON.parse(readFileSync(`${duty}.json`, 'utf8')));
    return notice.success ? notice.data : null;
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return null;
    throw error;
  }
}
