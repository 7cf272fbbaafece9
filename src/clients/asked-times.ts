/**
 * When each question was asked. A caller names the question that it answers by this time, in seconds. Two questions can be asked in one second, one
 * behind the other: the later one gets a later second, so that an answer to the first is never taken for one to the second.
 */
export class AskedTimes {
  #shown = { call: '', askedAt: 0 };

  /** `began`: when this call was asked, Unix ms. */
  of(call: string, began: number): number {
    const before = this.#shown;
    if (before.call === call) return before.askedAt;
    const isOneSecond = Math.floor(began / 1000) <= Math.floor(before.askedAt / 1000);
    this.#shown = { call, askedAt: isOneSecond ? before.askedAt + 1000 : began };
    return this.#shown.askedAt;
  }
}
