import { Refusal } from '../../protocol/refusal.ts';
import type { HostDeps, Timer } from './deps.ts';

/**
 * Work that nobody waits for: it is owned here, so that none of it is lost or goes on after the end. What fails is logged, and
 * whoever began it tries again by its alarm.
 */
export class Chores {
  readonly #open = new Set<{ done: Promise<void> }>();
  #isOver = false;

  constructor(readonly deps: Pick<HostDeps, 'log'>) {}

  get isOver(): boolean {
    return this.#isOver;
  }

  run(what: string, job: () => Promise<unknown>): void {
    if (this.#isOver) return;
    const chore = { done: Promise.resolve() };
    this.#open.add(chore);
    chore.done = this.#do(what, job, chore);
  }

  /** Takes no more, and waits for what is under way. */
  async close(): Promise<void> {
    this.#isOver = true;
    while (this.#open.size > 0) await Promise.all(Array.from(this.#open, ({ done }) => done));
  }

  async #do(what: string, job: () => Promise<unknown>, chore: { done: Promise<void> }): Promise<void> {
    try {
      await job();
    } catch (error) {
      this.deps.log('host.failed', { what, ...why(error) });
    } finally {
      this.#open.delete(chore);
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

  /** Rings at this time, or earlier if it was set so before. */
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
    // Whatever is asked of it afterwards is later than that.
    this.#at = -Infinity;
  }
}

/** Rounds that never overlap: asked for any number of times during one, it is done once more. */
export class Rounds {
  #asked = false;
  #running = false;

  constructor(
    readonly chores: Chores,
    readonly what: string,
    readonly round: () => Promise<void>,
  ) {}

  ask(): void {
    this.#asked = true;
    if (this.#running || this.chores.isOver) return;
    this.#running = true;
    this.chores.run(this.what, () => this.#go());
  }

  async #go(): Promise<void> {
    try {
      while (this.#asked && !this.chores.isOver) {
        this.#asked = false;
        await this.round();
      }
    } finally {
      this.#running = false;
    }
  }
}

/** A failure in small facts. A refusal's words are ours; others may hold a path, which is nobody's secret here, and never a body. */
export function why(error: unknown): Record<string, string> {
  if (error instanceof Refusal) return { refusal: error.code };
  return error instanceof Error ? { error: error.name, message: error.message.slice(0, 200) } : { error: 'unknown' };
}
