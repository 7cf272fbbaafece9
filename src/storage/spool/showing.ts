import type { Evidence } from '../../protocol/receipt.ts';
import { PartlyShown, shownNotSettled } from '../disk.ts';
import type { Show } from './spool.ts';

/** Runs what shows mail to a reader, and knows whether the reader has seen any of it. */
export class Showing {
  #seen: boolean;

  constructor(readonly show: Show | undefined) {
    this.#seen = show === 'shown';
  }

  run(): void {
    if (typeof this.show !== 'function') return;
    try {
      this.show();
    } catch (error) {
      this.#seen = error instanceof PartlyShown;
      throw error;
    }
    this.#seen = true;
  }

  get isSeen(): boolean {
    return this.#seen;
  }

  /** Why it waits again. */
  get because(): Evidence {
    return { because: this.#seen ? 'it was shown and could not be settled' : 'it could not be shown' };
  }

  /** The error of a settle that failed, with what became of the mail. */
  explained(error: unknown, place: string): unknown {
    return this.#seen && !(error instanceof PartlyShown) ? shownNotSettled(error, place) : error;
  }
}
