/**
 * The second in which a caller is told that something was asked, and by which it names what it answers. Two can be asked in one second, and are
 * shown one after the other: the later one gets a later second, so that an answer to the first is none to the second.
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
