export const DAY = 24 * 60 * 60 * 1000;

/** A span of time in milliseconds; null means for ever. */
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
