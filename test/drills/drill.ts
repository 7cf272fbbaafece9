/** What a drill counted, and what it found wrong: nothing, if it passed. */
export interface Outcome {
  counts: Record<string, number | string>;
  faults: string[];
}

/** A long race or a series of crashes. The short form takes a few seconds and runs with the tests. */
export interface Drill {
  name: string;
  run(long: boolean, tell: (text: string) => void): Promise<Outcome>;
}

export function passed({ faults }: Outcome): boolean {
  return faults.length === 0;
}

/** One line for people and for logs. */
export function lineOf(name: string, outcome: Outcome, ms: number): string {
  const counts = Object.entries(outcome.counts).map(([what, count]) => `${what} ${count}`);
  const faults = outcome.faults.length > 0 ? `  !! ${outcome.faults.slice(0, 5).join('; ')}` : '';
  return `${passed(outcome) ? 'PASS' : 'FAIL'} ${name}: ${counts.join(', ')} (${(ms / 1000).toFixed(1)} s)${faults}`;
}

/** Collects what is wrong. */
export class Faults {
  readonly found: string[] = [];

  expect(holds: boolean, otherwise: string): void {
    if (!holds) this.found.push(otherwise);
  }

  /** Nothing may be in this list; the first few are named. */
  none(list: Iterable<string>, what: string): void {
    const all = [...list];
    if (all.length > 0) this.found.push(`${all.length} ${what} (${all.slice(0, 3).join(', ')})`);
  }
}
