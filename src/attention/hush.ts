import type { Quiet } from '../protocol/quiet.ts';

/** Does somebody want no disturbance now? `minutesOfDay` is what the home's clock shows. spec: c2a#hush */
export function isHushed(quiet: Quiet | undefined, now: number, minutesOfDay: number): boolean {
  if (quiet === undefined) return false;
  if ('on' in quiet) return true;
  if ('until' in quiet) return now < Date.parse(quiet.until);
  const [from = 0, to = 0] = quiet.hours.split('-').map(minutesOf);
  if (from < to) return from <= minutesOfDay && minutesOfDay < to;
  // Across midnight; from a time to the same time is the whole day.
  return minutesOfDay >= from || minutesOfDay < to;
}

function minutesOf(time: string): number {
  const [hours = 0, minutes = 0] = time.split(':').map(Number);
  return hours * 60 + minutes;
}
