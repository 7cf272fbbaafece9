import * as v from 'valibot';
import { Schema } from '../schema.ts';
import type { Described } from '../schema.ts';

/** The quiet time of an agent: always, until a time, or every day between two times of the home's clock. spec: c2a#quiet-times */
export const Quiet = new Schema(() =>
  v.union([
    v.object({ on: v.literal(true) }),
    v.object({ until: v.pipe(v.string(), v.isoTimestamp()) }),
    v.object({ hours: v.pipe(v.string(), v.regex(/^\d{2}:\d{2}-\d{2}:\d{2}$/)) }),
  ]),
);
export type Quiet = Described<typeof Quiet>;

/** Is this a quiet time? `minutesOfDay` is the time of the home's clock. spec: c2a#quiet-times */
export function isQuietTime(quiet: Quiet | undefined, now: number, minutesOfDay: number): boolean {
  if (quiet === undefined) return false;
  if ('on' in quiet) return true;
  if ('until' in quiet) return now < Date.parse(quiet.until);
  const [from = 0, to = 0] = quiet.hours.split('-').map(minutesOf);
  if (from < to) return from <= minutesOfDay && minutesOfDay < to;
  // Hours across midnight. The same time twice means the whole day.
  return minutesOfDay >= from || minutesOfDay < to;
}

function minutesOf(time: string): number {
  const [hours = 0, minutes = 0] = time.split(':').map(Number);
  return hours * 60 + minutes;
}
