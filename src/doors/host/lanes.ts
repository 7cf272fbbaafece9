/**
 * What is asked for one session happens in the order in which it was asked: a turn that ended after a message was sent must
 * not be noticed before it. Sessions do not wait for each other. What belongs to no session in particular waits for everything
 * before it, and every session waits for that. What is *free* waits for nothing: who asked for it has an order of its own.
 */
export class Lanes {
  readonly #lanes = new Map<string, Promise<void>>();
  readonly #free = new Set<Promise<void>>();
  #shared: Promise<void> = Promise.resolve();

  /** `work` does not throw. */
  run(lane: string | undefined, work: () => Promise<void>): void {
    if (lane === undefined) {
      this.#shared = Promise.all([this.#shared, ...this.#lanes.values(), ...this.#free]).then(work);
      this.#lanes.clear();
      return;
    }
    const done = (this.#lanes.get(lane) ?? this.#shared).then(work);
    this.#lanes.set(lane, done);
    // Nobody waits behind it: the next of this session may begin at once.
    void done.then(() => this.#lanes.get(lane) === done && this.#lanes.delete(lane));
  }

  /** Begins at once. `work` does not throw. */
  runFree(work: () => Promise<void>): void {
    const finished = work();
    this.#free.add(finished);
    void finished.then(() => this.#free.delete(finished));
  }

  /** When everything that was asked so far is done. */
  async idle(): Promise<void> {
    await Promise.all([this.#shared, ...this.#lanes.values(), ...this.#free]);
  }
}
