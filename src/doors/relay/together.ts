/**
 * Begins what comes in the same turn of the event loop together, at its end. Requests that are begun one by one, between the system calls
 * that read them from their connections, cost more; and by then nearly all bodies are there. Who comes when nobody else is at work does
 * not wait.
 */
export class Together {
  #atWork = 0;
  #waiting: (() => void)[] = [];

  async begin<T>(act: () => Promise<T>): Promise<T> {
    this.#atWork += 1;
    try {
      if (this.#atWork > 1) await this.#endOfTurn();
      return await act();
    } finally {
      this.#atWork -= 1;
    }
  }

  #endOfTurn(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#waiting.push(resolve) === 1) setImmediate(() => this.#go());
    });
  }

  #go(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const go of waiting) go();
  }
}
