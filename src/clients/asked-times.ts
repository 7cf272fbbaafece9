/**
 * When each question was asked. Callers use this time, in whole seconds, to name the question that they answer. If two questions are asked
 * in the same second, the second one gets the next second, so an answer to the first never counts for the second.
 */
export class AskedTimes {
  #last = { call: '', askedAt: 0 };

  /** The time of a question (Unix ms). `began`: when the client asked it. */
  of(call: string, began: number): number {
    const before = this.#last;
    if (before.call === call) return before.askedAt;
    const isSameSecond = Math.floor(began / 1000) <= Math.floor(before.askedAt / 1000);
    this.#last = { call, askedAt: isSameSecond ? before.askedAt + 1000 : began };
    return this.#last.askedAt;
  }
}
