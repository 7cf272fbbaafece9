import type { Times } from './measure.ts';

/** One line of the table. */
export interface Row {
  /** The name of the measured act. */
  what: string;
  /** The name of the floor. */
  floor: string;
  /** Median and p99 of each, as text; empty where nothing was timed. */
  ours: string;
  beside: string;
  /** The ratio to the floor, by medians and by p99s; null if it was not measured. */
  ratio: number | null;
  tail: number | null;
  /** The highest allowed ratio; null if none is promised. */
  limit: number | null;
  /** Why it was not measured, or what else a reader should know. */
  note?: string | undefined;
  /** Where the time goes; shown only if the target is missed. */
  because?: string | undefined;
}

/** What every figure gets: whether to run briefly, and fresh folders. */
export interface Bench {
  quick: boolean;
  /** A fresh folder on the disk that is measured. */
  fresh(): string;
  /** The compiled program, built from this source at first use. */
  program(): string;
  /** Prints the current step on stderr. */
  tell(text: string): void;
}

/** One group of rows, measured together. */
export type Figure = (bench: Bench) => Promise<Row[]>;

/** A row from two contestants of one run. */
export function beside(
  what: string,
  floor: string,
  limit: number | null,
  ours: Times,
  base: Times,
  note?: string,
): Row {
  return {
    what,
    floor,
    ours: spoken(ours),
    beside: spoken(base),
    ratio: ours.median / base.median,
    tail: ours.p99 / base.p99,
    limit,
    note,
  };
}

export function notMeasured(what: string, floor: string, limit: number | null, note: string): Row {
  return { what, floor, ours: '', beside: '', ratio: null, tail: null, limit, note };
}

/** A row with an absolute bound instead of a floor. */
export function within(what: string, value: number, limit: number, unit: string): Row {
  const text = `${value.toFixed(1)} ${unit}`;
  return { what, floor: `${limit} ${unit}`, ours: text, beside: '', ratio: value / limit, tail: null, limit: 1 };
}

/** Median and p99 in a unit that suits them. */
export function spoken({ median, p99, count }: Times): string {
  const unit = median < 0.1 ? ([1000, 'µs'] as const) : ([1, 'ms'] as const);
  const text = (ms: number): string => (ms * unit[0]).toPrecision(3).replace(/\.?0+e/, 'e');
  // With few samples the p99 is only the maximum: show their number.
  return `${Number(text(median))} / ${Number(text(p99))} ${unit[1]} (${count}×)`;
}
