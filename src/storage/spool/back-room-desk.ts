import type { AgentName } from '../../protocol/names.ts';
import { Clerk } from './back-room-clerk.ts';
import { troubleOf } from './back-room-talk.ts';
import type { Errand, Report, Trouble } from './back-room-talk.ts';

/** If no clerk could come, one is called again after this. */
const AGAIN_MS = 1000;

/**
 * One home's place in the back room. Its clerk comes with the first order. It may be that none can: the ledger cannot be opened, or too
 * many files are open. Then every order is answered, so that nobody at the counter waits for ever, and what needs no further words
 * (files, watched mailboxes) is kept. A clerk is called again after a pause, or at once by an order for whose answer somebody waits;
 * whichever it was, the clerk first gets what was kept.
 */
export class Desk {
  #clerk: Clerk | null = null;
  #filing: Errand | null = null;
  readonly #watched = new Map<AgentName, Errand>();
  #pause: ReturnType<typeof setTimeout> | null = null;

  constructor(
    readonly root: string,
    readonly report: (what: Report) => void,
  ) {}

  take(order: Errand): void {
    if (this.#clerk) this.#clerk.take(order);
    else this.#takeWithout(order);
  }

  #takeWithout(order: Errand): void {
    this.#keep(order);
    const trouble = this.#isToCall(order) ? this.#call() : null;
    if (!this.#clerk) this.#excuse(order, trouble);
    else if (!isKept(order)) this.#clerk.take(order);
  }

  #keep(order: Errand): void {
    if (order.say === 'file') this.#filing = order;
    else if (order.say === 'watch') this.#watched.set(order.mailbox, order);
    else if (order.say === 'unwatch') this.#watched.delete(order.mailbox);
    else if (order.say === 'close') this.#endPause();
  }

  #isToCall(order: Errand): boolean {
    const isAwaited = 'ticket' in order || (order.say === 'file' && order.hurry);
    return isAwaited || (!this.#pause && isKept(order));
  }

  #call(): Trouble | null {
    this.#endPause();
    try {
      this.#clerk = new Clerk(this.root, this.report);
    } catch (error) {
      this.#pause = setTimeout(() => this.#callAgain(), AGAIN_MS);
      return troubleOf(error);
    }
    if (this.#filing) this.#clerk.take(this.#filing);
    for (const order of this.#watched.values()) this.#clerk.take(order);
    return null;
  }

  #callAgain(): void {
    const trouble = this.#call();
    if (trouble) this.report({ say: 'trouble', trouble });
  }

  #endPause(): void {
    if (this.#pause) clearTimeout(this.#pause);
    this.#pause = null;
  }

  /** Answers in place of a clerk. */
  #excuse(order: Errand, trouble: Trouble | null): void {
    if (trouble && 'ticket' in order) this.report({ say: 'failed', ticket: order.ticket, trouble });
    else if (trouble) this.report({ say: 'trouble', trouble });
    if (order.say === 'file') this.report({ say: 'idle', turn: order.turn, left: 1 });
    else if (order.say === 'close') this.report({ say: 'closed' });
  }
}

function isKept({ say }: Errand): boolean {
  return say === 'file' || say === 'watch';
}
