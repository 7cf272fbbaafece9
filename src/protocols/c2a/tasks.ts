import { Refusal } from '../../core/refusal.ts';
import type { HostDeps, Timer } from './context.ts';

/**
 * Owns work that no caller waits for, so that none is lost or runs after `close()`. A failure is logged; the caller's own alarm tries
 * again.
 */
export class BackgroundTasks {
  readonly #open = new Set<{ done: Promise<void> }>();
  #isOver = false;

  constructor(readonly deps: Pick<HostDeps, 'log'>) {}

  get isOver(): boolean {
    return this.#isOver;
  }

  run(what: string, job: () => Promise<unknown>): void {
    if (this.#isOver) return;
    const task = { done: Promise.resolve() };
    this.#open.add(task);
    task.done = this.#do(what, job, task);
  }

  /** Takes no new task, and waits for the running ones. */
  async close(): Promise<void> {
    this.#isOver = true;
    while (this.#open.size > 0) await Promise.all(Array.from(this.#open, ({ done }) => done));
  }

  async #do(what: string, job: () => Promise<unknown>, task: { done: Promise<void> }): Promise<void> {
    try {
      await job();
    } catch (error) {
      this.deps.log('host.failed', { what, ...failureFacts(error) });
    } finally {
      this.#open.delete(task);
    }
  }
}

/** One timer for the earliest of several times. */
export class Alarm {
  #timer: Timer | null = null;
  #at = Infinity;

  constructor(
    readonly deps: Pick<HostDeps, 'now' | 'after'>,
    readonly ring: () => void,
  ) {}

  /** Rings at this time, or at an earlier one that was set before. */
  at(time: number): void {
    if (time >= this.#at) return;
    this.#timer?.cancel();
    this.#at = time;
    this.#timer = this.deps.after(Math.max(0, time - this.deps.now()), () => {
      this.#at = Infinity;
      this.#timer = null;
      this.ring();
    });
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = null;
    // Every later call of `at` names a later time, so it sets no timer.
    this.#at = -Infinity;
  }
}

/** Runs rounds that never overlap. Any number of requests during one round cause one more. */
export class RepeatingTask {
  #asked = false;
  #running = false;

  constructor(
    readonly tasks: BackgroundTasks,
    readonly what: string,
    readonly round: () => Promise<void>,
  ) {}

  ask(): void {
    this.#asked = true;
    if (this.#running || this.tasks.isOver) return;
    this.#running = true;
    this.tasks.run(this.what, () => this.#go());
  }

  async #go(): Promise<void> {
    try {
      while (this.#asked && !this.tasks.isOver) {
        this.#asked = false;
        await this.round();
      }
    } finally {
      this.#running = false;
    }
  }
}

/** A failure as small facts for the log. Its text is ours or may contain a path, but never a body. */
export function failureFacts(error: unknown): Record<string, string> {
  if (error instanceof Refusal) return { refusal: error.code };
  return error instanceof Error ? { error: error.name, message: error.message.slice(0, 200) } : { error: 'unknown' };
}

/** Limits the rate, the burst, and how many callers wait. Refuses the rest; drops nothing. */
export class Rate {
  #left: number;
  #at: number;
  #waiting = 0;

  constructor(
    readonly deps: Pick<HostDeps, 'now' | 'after'>,
    readonly limit: { perSecond: number; atOnce: number; waiting: number },
  ) {
    this.#left = limit.atOnce;
    this.#at = deps.now();
  }

  /** Resolves when it is the caller's turn. Throws if too many wait already. */
  async turn(what: string): Promise<void> {
    this.#refill();
    const waitMs = this.#left >= 1 ? 0 : Math.ceil(((1 - this.#left) * 1000) / this.limit.perSecond);
    if (waitMs > 0 && this.#waiting >= this.limit.waiting) {
      throw new Refusal(
        'busy',
        `too many ${what} at once; try again in ${Math.ceil(waitMs / 1000)} s, with the same key`,
      );
    }
    // Take the place now, even if the caller must wait for it, so that later callers wait longer.
    this.#left -= 1;
    if (waitMs === 0) return;
    this.#waiting += 1;
    await new Promise<void>((resolve) => this.deps.after(waitMs, resolve));
    this.#waiting -= 1;
  }

  #refill(): void {
    const now = this.deps.now();
    this.#left = Math.min(this.limit.atOnce, this.#left + (Math.max(0, now - this.#at) / 1000) * this.limit.perSecond);
    this.#at = now;
  }
}

/** How long a message waits for its predecessors, if its source numbers messages without gaps. */
const GAP_MS = 500;
/** The most conversations that are remembered between two messages. */
const MOST = 10_000;

interface Line {
  done: Promise<void>;
  last: number | null;
  /** The last two numbers were consecutive, so a gap means that a message is still under way. */
  isCounted: boolean;
  waiting: Map<number, () => void>;
  open: number;
}

/** Handles messages of one conversation one after the other, in the order of their numbers if the source has numbers. */
export class ConversationOrder {
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
