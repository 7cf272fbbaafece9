import { readFileSync, statSync } from 'node:fs';
import type { Home } from '../core/mail/workspace.ts';
import { replaceFile } from '../platform/files.ts';
import { ifThere, StorageFailure, storageTrouble } from '../core/disk.ts';
import type { Cut } from './commands/prune.ts';
import type { Context } from './context.ts';

const DAY = 24 * 60 * 60 * 1000;
/** As many days as the longest time that anybody keeps mail for; then the oldest are left out. */
const MOST_DAYS = 4000;

/** What the settings want forgotten by now, if the clock is right. */
export function cutBy(context: Context): Cut {
  const { keepBodies, keepFacts } = context.settings;
  const now = context.workspace.now();
  return {
    bodies: keepBodies === null ? null : now - keepBodies,
    facts: keepFacts === null ? null : now - keepFacts,
  };
}

/**
 * Once a day, when mail is looked at: never on the way of a message, because it reads the whole history.
 *
 * A clock may jump, and what is forgotten does not come back. So this goes by the days on which mail was looked at, each noted in the file
 * `pruned`: what is to be kept for 30 days goes only after 30 such days, and only if it is that old by the clock too. A jump is one day,
 * however far it goes. A home that is rarely used keeps its mail longer; `parley prune` goes by the clock alone.
 */
export async function forgetDaily(context: Context, home: Home): Promise<void> {
  try {
    await forgetIfDue(context, home);
  } catch (error) {
    // Who wants to see their mail does not wait for a disk that forgets nothing today.
    if (!(storageTrouble(error) instanceof StorageFailure)) throw error;
    context.log('not pruned', { home: home.label, why: (error as Error).message });
  }
}

async function forgetIfDue(context: Context, home: Home): Promise<void> {
  const now = context.workspace.now();
  const path = `${home.root}/pruned`;
  // Days later than now were noted by a clock that was ahead.
  const before = daysIn(path).filter((day) => day <= now);
  const last = before.at(-1);
  if (last !== undefined && now - last < DAY) return;
  const days = [...before, now].slice(-MOST_DAYS);
  replaceFile(path, days.join('\n'));
  if (last === undefined) return;
  const byClock = cutBy(context);
  const cut = { bodies: earlier(byClock.bodies, now, days), facts: earlier(byClock.facts, now, days) };
  const { bodies, messages } = await home.journal.prune(cut);
  context.log('pruned', { home: home.label, bodies, messages });
}

/** The earlier of this time and the day that lies as many noted days back; null, which keeps everything, if there were not so many. */
function earlier(cut: number | null, now: number, days: readonly number[]): number | null {
  if (cut === null) return null;
  const day = days.at(-1 - Math.ceil((now - cut) / DAY));
  return day === undefined ? null : Math.min(cut, day);
}

/** When mail was looked at, oldest first. The first builds noted only the last time, as the time of the file. */
function daysIn(path: string): number[] {
  const text = ifThere(() => readFileSync(path, 'utf8'));
  if (text === null) return [];
  if (text === '') return [statSync(path).mtimeMs];
  const days = text.split('\n').map(Number);
  return days.filter(Number.isFinite).toSorted((a, b) => a - b);
}
