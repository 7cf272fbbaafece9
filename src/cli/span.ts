/** A span of time as it is written in a setting: `30d`, `12h`, `5m`, `forever`. */
export function spanText(ms: number | null): string {
  if (ms === null) return 'forever';
  for (const [unit, size] of UNITS) if (ms % size === 0) return `${ms / size}${unit}`;
  return `${Math.round(ms / 60_000)}m`;
}

const UNITS: readonly [unit: string, ms: number][] = [
  ['d', 24 * 60 * 60 * 1000],
  ['h', 60 * 60 * 1000],
  ['m', 60 * 1000],
];
