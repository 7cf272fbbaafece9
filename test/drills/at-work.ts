// What the children have in common: the plan from the command line, standing ready, and saying things.
import { writeSync } from 'node:fs';

/** The plan that the drill handed over. It comes from the file beside us, so it is believed. */
export function thePlan(): unknown {
  return JSON.parse(process.argv[2] ?? '{}');
}

/** In one write, as a reader prints what it took. */
export function say(...facts: object[]): void {
  writeSync(1, facts.map((fact) => `${JSON.stringify(fact)}\n`).join(''));
}

/** Those who race start together: says that it is ready and waits for the word. */
export async function standReady(): Promise<void> {
  say({ ready: true });
  await input.next();
}

/** True as soon as the drill has closed our input. */
export function toldToStop(): () => boolean {
  let stopped = false;
  void (async () => {
    while (!(await input.next()).done);
    stopped = true;
  })();
  return () => stopped;
}

/** The end of a child: its open input would keep it alive. */
export function leave(): never {
  process.exit(0);
}

export const LEASE = { ms: 30_000 };
export const TAKEN = { disposition: 'acknowledged', by: { by: 'drill' } } as const;

const input = Bun.stdin.stream()[Symbol.asyncIterator]();
