import type { HostDeps } from './deps.ts';

/** How long the ones before are waited for, where a source counts its messages one by one. */
const GAP_MS = 500;
/** So many places are remembered between two messages. */
const MOST = 10_000;

interface Line {
  done: Promise<void>;
  last: number | null;
  /** The last two followed each other: a gap means that one is on its way. */
  isCounted: boolean;
  waiting: Map<number, () => void>;
  open: number;
}

/** What is said in one place happens one after the other; and in the order of its numbers, where the source gives some. */
export class InOrder {
  readonly #lines = new Map<string, Line>();

  constructor(readonly deps: Pick<HostDeps, 'after'>) {}

  async run<T>(place: string, sequence: number | undefined, job: () => Promise<T>): Promise<T> {
    const line = this.#lines.get(place) ?? newLine();
    this.#lines.set(place, line);
    line.open += 1;
    try {
      if (sequence !== undefined) await this.#turn(line, sequence);
      const before = line.done;
      const mine = Promise.withResolvers<void>();
      line.done = mine.promise;
      await before;
      try {
        return await job();
      } finally {
        mine.resolve();
      }
    } finally {
      line.open -= 1;
      if (line.open === 0 && (line.last === null || this.#lines.size > MOST)) this.#lines.delete(place);
    }
  }

  async #turn(line: Line, sequence: number): Promise<void> {
    if (line.isCounted && line.last !== null && sequence > line.last + 1) {
      const came = Promise.withResolvers<void>();
      line.waiting.set(sequence, came.resolve);
      const timer = this.deps.after(GAP_MS, came.resolve);
      await came.promise;
      timer.cancel();
      line.waiting.delete(sequence);
    }
    line.isCounted = line.last === null || sequence === line.last + 1;
    line.last = Math.max(line.last ?? sequence, sequence);
    line.waiting.get(line.last + 1)?.();
  }
}

function newLine(): Line {
  return { done: Promise.resolve(), last: null, isCounted: false, waiting: new Map(), open: 0 };
}
