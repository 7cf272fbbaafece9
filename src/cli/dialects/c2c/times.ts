/** Seconds since 1970 as an ISO time. Other programs may have written what no clock shows: that is the beginning of time. */
export function isoOf(seconds: number): string {
  return new Date(Math.abs(seconds) <= 8.64e12 ? seconds * 1000 : 0).toISOString();
}

/** The same for people: to the minute. */
export function minuteOf(seconds: number): string {
  return isoOf(seconds).slice(0, 16).replace('T', ' ');
}
