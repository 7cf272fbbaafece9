/** The statistics of one contestant's times, in milliseconds. */
export interface Times {
  median: number;
  p99: number;
  least: number;
  count: number;
}

export type Act = () => void | Promise<void>;

/**
 * Runs every contestant once per round. Each round begins with another contestant, and every second round runs backwards, so that load on
 * the machine slows all alike, and none always follows the same one: a large program leaves cold caches to the next.
 * The first rounds are not counted: they fill caches and let the compiler do its work.
 */
export async function interleave<Name extends string>(
  rounds: number,
  acts: Record<Name, Act>,
  warmUp = Math.ceil(rounds / 10),
): Promise<Record<Name, Times>> {
  const names = Object.keys(acts) as Name[];
  const taken = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Name, number[]>;
  for (let round = -warmUp; round < rounds; round += 1) {
    const [turn, way] = [round + warmUp, (round + warmUp) % 2 === 0 ? 1 : -1];
    for (const at of names.keys()) {
      const name = names.at((turn + way * at) % names.length) as Name;
      const ms = await timed(acts[name]);
      if (round >= 0) taken[name].push(ms);
    }
  }
  return Object.fromEntries(names.map((name) => [name, summary(taken[name])])) as Record<Name, Times>;
}

/** A synchronous act is not awaited: the wait would be counted. */
export async function timed(act: Act): Promise<number> {
  const start = Bun.nanoseconds();
  const pending = act();
  if (pending) await pending;
  return (Bun.nanoseconds() - start) / 1e6;
}

export function summary(times: number[]): Times {
  const sorted = times.toSorted((a, b) => a - b);
  return { median: part(sorted, 0.5), p99: part(sorted, 0.99), least: sorted[0] ?? 0, count: sorted.length };
}

function part(sorted: number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
