import type { AgentName, MessageId } from '../../protocol/names.ts';
import { explained } from '../disk.ts';
import type { CopyNumber } from '../ledger/late.ts';
import { errorOf } from './back-room-talk.ts';
import type { Addressed, Looked, Order, Report } from './back-room-talk.ts';

/** In a compiled program the worker stands beside the program's own entry; see scripts/build.mjs. */
const ENTRY = import.meta.url.includes('$bunfs')
  ? './storage/spool/back-room.ts'
  : new URL('./back-room.ts', import.meta.url).href;
/** A worker that dies is replaced, but not in a rush. */
const REPLACE_MS = 1000;

/** What a home does for its clerk. */
export interface Counter {
  /** Says in the ledger that these are drafted. */
  drafted(copies: CopyNumber[]): Promise<boolean[]>;
  filed(copies: CopyNumber[], handled: number): Promise<void>;
  /** A look that nobody asked for found something. */
  noticed(mailbox: AgentName, found: Looked): Promise<void>;
  idle(left: number): void;
  trouble(error: unknown): void;
}

/**
 * One worker for all homes of this process: most of them have nothing to do most of the time. Once started it stays: a thread
 * that is ended while it holds a lock file would leave it locked.
 */
let worker: Worker | null = null;
const rooms = new Map<number, BackRoom>();
let homes = 0;

function post(message: Addressed<Order>): void {
  worker ??= start();
  // eslint-disable-next-line unicorn/require-post-message-target-origin -- A worker is no window: it has no origin.
  worker.postMessage(message);
}

function start(): Worker {
  const started = new Worker(ENTRY);
  started.addEventListener('message', ({ data }: MessageEvent<Addressed<Report>>) => rooms.get(data.home)?.hear(data));
  started.addEventListener('error', (event) => {
    if (worker !== started) return;
    worker = null;
    started.terminate();
    for (const { counter } of rooms.values()) counter.trouble(new Error(`the back room failed: ${event.message}`));
    setTimeout(() => {
      for (const room of rooms.values()) room.beginAgain();
    }, REPLACE_MS).unref();
  });
  // Whoever has nothing else to do may end.
  started.unref();
  return started;
}

/** The back room as one home sees it: orders go in, reports come out. */
export class BackRoom {
  readonly #home: number;
  readonly #asked = new Map<
    number,
    { order: Order; resolve: (answer: never) => void; reject: (error: Error) => void }
  >();
  readonly #watched = new Map<AgentName, number>();
  #ticket = 0;
  /** The last turn that we ordered, the last that was begun with, and whether one is under way. */
  #turn = 0;
  #busy = false;
  #mayFile = false;
  #hurry = false;
  #onClosed: () => void = () => {};
  #isClosed = false;

  constructor(
    readonly root: string,
    readonly counter: Counter,
  ) {
    homes += 1;
    this.#home = homes;
    rooms.set(this.#home, this);
    this.#order({ say: 'open', root });
  }

  /** Whether we are the one that writes files in this home. */
  mayFile(mayFile: boolean): void {
    this.#mayFile = mayFile;
    if (mayFile) this.file();
  }

  /** There may be copies without a file. */
  file(hurry = false): void {
    this.#turn += 1;
    this.#hurry ||= hurry;
    if (this.#mayFile && (!this.#busy || hurry)) this.#sendOff();
  }

  async look(mailbox: AgentName): Promise<Looked> {
    return this.#ask<Looked>((ticket) => ({ say: 'look', ticket, mailbox }));
  }

  async list(folder: string): Promise<MessageId[]> {
    return this.#ask<MessageId[]>((ticket) => ({ say: 'list', ticket, folder }));
  }

  watch(mailbox: AgentName, since: number): void {
    this.#watched.set(mailbox, since);
    this.#order({ say: 'watch', mailbox, since });
  }

  unwatch(mailbox: AgentName): void {
    this.#watched.delete(mailbox);
    this.#order({ say: 'unwatch', mailbox });
  }

  putBack(mailbox: AgentName, ids: MessageId[]): void {
    if (this.#watched.has(mailbox)) this.#order({ say: 'put back', mailbox, ids });
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#onClosed = resolve;
      this.#order({ say: 'close' });
      this.#isClosed = true;
    });
    rooms.delete(this.#home);
  }

  hear(report: Report): void {
    this.#hear(report).catch((error: unknown) => this.counter.trouble(error));
  }

  /** After the worker died: everything that it knew is said once more. */
  beginAgain(): void {
    if (this.#isClosed) this.#onClosed();
    this.#order({ say: 'open', root: this.root });
    for (const [mailbox, since] of this.#watched) this.#order({ say: 'watch', mailbox, since });
    for (const { order } of this.#asked.values()) this.#order(order);
    this.#sendOff();
  }

  async #hear(report: Report): Promise<void> {
    switch (report.say) {
      case 'drafted':
        await this.#answerDrafted(report.copies);
        break;
      case 'filed':
        await this.counter.filed(report.copies, report.handled);
        break;
      case 'idle':
        this.#busy = false;
        if (report.turn < this.#turn) this.#sendOff();
        else {
          this.#hurry = false;
          this.counter.idle(report.left);
        }
        break;
      case 'looked':
        if (report.ticket === null) await this.counter.noticed(report.mailbox, report.found);
        else this.#answered(report.ticket, report.found);
        break;
      case 'listed':
        this.#answered(report.ticket, report.ids);
        break;
      case 'failed':
        this.#asked.get(report.ticket)?.reject(explained(errorOf(report.trouble), this.root) as Error);
        this.#asked.delete(report.ticket);
        break;
      case 'trouble':
        this.counter.trouble(explained(errorOf(report.trouble), this.root));
        break;
      case 'closed':
        this.#onClosed();
    }
  }

  /** A clerk without an answer would wait for ever. */
  async #answerDrafted(copies: CopyNumber[]): Promise<void> {
    let mine: boolean[] | null = null;
    try {
      mine = await this.counter.drafted(copies);
    } finally {
      this.#order({ say: 'mine', mine });
    }
  }

  #sendOff(): void {
    this.#busy = this.#mayFile;
    this.#order({ say: 'file', turn: this.#turn, mayFile: this.#mayFile, hurry: this.#hurry });
  }

  async #ask<T>(order: (ticket: number) => Order): Promise<T> {
    this.#ticket += 1;
    const ticket = this.#ticket;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const asked = order(ticket);
    this.#asked.set(ticket, { order: asked, resolve, reject });
    this.#order(asked);
    return promise;
  }

  #answered(ticket: number, answer: unknown): void {
    this.#asked.get(ticket)?.resolve(answer as never);
    this.#asked.delete(ticket);
  }

  #order(order: Order): void {
    // A worker is not started anew for the last words of a home that is closed.
    if (!this.#isClosed) post({ ...order, home: this.#home });
  }
}
