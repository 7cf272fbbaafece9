import { Refusal } from './refusal.ts';

export const DAY = 24 * 60 * 60 * 1000;
const YEAR = 366 * DAY;
/** The latest time that a Date can hold (ms). */
const LATEST = 8.64e15;

/** A span of time in milliseconds; null means forever. */
export function spanMs(text: string): number | null {
  if (text === 'forever') return null;
  const unit = { d: DAY, h: DAY / 24, m: 60_000 }[text.at(-1) ?? ''] ?? DAY;
  return Number.parseInt(text, 10) * unit;
}

/** A span of time as it is written in a setting: `30d`, `12h`, `5m`, `forever`. */
export function spanText(ms: number | null): string {
  if (ms === null) return 'forever';
  for (const [unit, size] of UNITS) if (ms % size === 0) return `${ms / size}${unit}`;
  return `${Math.round(ms / 60_000)}m`;
}

const UNITS: readonly [unit: string, ms: number][] = [
  ['d', DAY],
  ['h', 60 * 60 * 1000],
  ['m', 60 * 1000],
];

/** Parses a deadline, as an ISO time. A span such as 30m counts from now. */
export function deadlineFrom(text: string | undefined, now: number): string | undefined {
  if (text === undefined) return undefined;
  const at = /^\d+[dhm]$/.test(text) ? now + (spanMs(text) ?? 0) : Date.parse(text);
  if (!(Math.abs(at) < LATEST))
    throw new Refusal('invalid_request', `"${text}" is not a deadline; write 30m, 2h, 1d or an ISO time`);
  return new Date(at).toISOString();
}

/** Parses a future time, as an ISO time: a span such as 2h from now, the next 07:30 of this machine's clock, or an ISO time. */
export function momentFrom(text: string, now: number): string {
  const [, hours, minutes] = /^([01]\d|2[0-3]):([0-5]\d)$/.exec(text) ?? [];
  const at = /^\d+[dhm]$/.test(text)
    ? now + (spanMs(text) ?? 0)
    : hours !== undefined
      ? nextAt(Number(hours), Number(minutes), now)
      : Date.parse(text);
  if (!(Math.abs(at) < LATEST))
    throw new Refusal('invalid_request', `"${text.slice(0, 40)}" is not a time; write 30m, 2h, 07:30 or an ISO time`);
  if (at <= now) throw new Refusal('invalid_request', `"${text}" is in the past; give a later time`);
  return new Date(at).toISOString();
}

/** Parses a past time, as an ISO time: a span such as 2h before now, or an ISO time. */
export function pastFrom(text: string, now: number): string {
  const at = /^\d+[dhm]$/.test(text) ? now - (spanMs(text) ?? 0) : Date.parse(text);
  if (!(Math.abs(at) < LATEST))
    throw new Refusal('invalid_request', `"${text.slice(0, 40)}" is not a time; write 2h, 1d or an ISO time`);
  return new Date(at).toISOString();
}

function nextAt(hours: number, minutes: number, now: number): number {
  const at = new Date(now);
  at.setHours(hours, minutes, 0, 0);
  if (at.getTime() <= now) at.setDate(at.getDate() + 1);
  return at.getTime();
}

/** A span of time such as 30s, 10m or 2h. */
export function durationFrom(text: string): number {
  const isSeconds = /^\d+s$/.test(text);
  const ms = isSeconds ? Number.parseInt(text, 10) * 1000 : /^\d+[dhm]$/.test(text) ? spanMs(text) : null;
  if (ms === null || ms > YEAR)
    throw new Refusal('invalid_request', `"${text}" is not a span of time; write 30s, 10m, 2h or 7d, at most a year`);
  return ms;
}

/** A whole number from the command line. */
export function countFrom(text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback;
  const count = Number(text);
  if (!Number.isSafeInteger(count) || count < 1)
    throw new Refusal('invalid_request', `"${text}" is not a count; write a whole number above 0`);
  return count;
}

/** `3 min ago`, for people. */
export function ago(iso: string, now: number): string {
  const seconds = Math.max(0, Math.round((now - Date.parse(iso)) / 1000));
  if (!Number.isFinite(seconds)) return 'at an unknown time';
  if (seconds < 60) return 'just now';
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

/** A time as an ISO time to the second. */
export function clockTime(ms: number): string {
  return Math.abs(ms) > 8.64e15 ? 'an unknown time' : new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}

/** Seconds since 1970 as an ISO time. An impossible time of another program becomes 1970. */
export function isoOf(seconds: number): string {
  return new Date(Math.abs(seconds) <= 8.64e12 ? seconds * 1000 : 0).toISOString();
}

/** Like `isoOf`, to the minute, for people. */
export function minuteOf(seconds: number): string {
  return isoOf(seconds).slice(0, 16).replace('T', ' ');
}
