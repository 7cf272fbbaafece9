import type { Who } from '../../core/mail/workspace.ts';
import { WaitingPages } from '../../core/mail/deliver.ts';
import type { Mail } from '../../core/ports/journal.ts';
import type { Watch } from '../../core/ports/mailboxes.ts';

/** How much is kept for a slow listener; what comes after it is read from the journal when the listener is back. */
const QUEUE_BYTES = 256 * 1024;
/** The numbers of the last messages sent: one that was held and came back is told from one that was sent before. */
const RECENT = 128;
/** A listener that takes nothing for this many signs of life is cut; it comes back and loses nothing. */
const PATIENCE = 3;

const encoder = new TextEncoder();
const HELLO = encoder.encode(': listening\n\n');
const KEEPALIVE = encoder.encode(': keepalive\n\n');

/** Who listens, and from where on. */
export interface ListenerOptions {
  who: Who;
  /** Of the token that opened it. */
  tokenHash: string;
  /** The last number that it has seen. */
  after: number;
  /** Asked before anything is told: false once the token that opened the stream is nobody's or somebody else's. */
  isWelcome: () => Promise<boolean>;
  /** Ends the connection of a reader that takes nothing. */
  cut: () => void;
}

/**
 * One open stream: everything that waits, in order of arrival, then what arrives. It claims nothing. spec: relay#events
 *
 * It is *behind* until it has read the journal up to its mark, and *live* after that: what arrives is handed on as it is, without
 * reading it again. A slow reader makes it fall behind again, and costs no more memory than its queue.
 */
export class Listener {
  readonly stream: ReadableStream<Uint8Array>;
  readonly #pages: WaitingPages;
  /** For a reader that comes back: what was on loan when it came by, and waits again since. */
  #returned: WaitingPages | null;
  readonly #watch: Watch;
  readonly #recent: number[] = [];
  #queue: Uint8Array[] = [HELLO];
  #queued = HELLO.length;
  #isBehind = true;
  #isLooking = false;
  #hasGreeted = false;
  #missed = 0;
  #isClosed = false;
  #wake: (() => void) | undefined;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor(
    readonly listening: ListenerOptions,
    /** With the error, if it was one of ours that ended it. */
    readonly onClose: (listener: Listener, error?: unknown) => void,
  ) {
    const { who, after } = listening;
    this.#pages = new WaitingPages(who, after);
    this.#returned = after > 0 ? new WaitingPages(who, 0, after) : null;
    // Before the first look: what arrives in between is not missed.
    this.#watch = who.home.mailboxes.watch(who.name, (mail) => this.#arrived(mail));
    this.stream = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        // Anyone who is cut off by an error of ours comes back and gets everything again.
        pull: (controller) => this.#pull(controller).catch((error: unknown) => this.close(error)),
        cancel: () => this.close(),
      },
      // Nothing is made before the connection can take it.
      { highWaterMark: 0 },
    );
  }

  /** A sign of life, if nothing else is under way. */
  keepAlive(): void {
    if (this.#wake) return this.#enqueue(KEEPALIVE);
    this.#missed += 1;
    if (this.#missed >= PATIENCE) this.#leave();
  }

  close(error?: unknown): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#watch.close();
    this.#queue = [];
    this.onClose(this, error);
    this.#wake?.();
    try {
      this.#controller?.close();
    } catch {
      // The reader was first.
    }
  }

  #leave(): void {
    this.listening.cut();
    this.close();
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    this.#missed = 0;
    while (!this.#isClosed) {
      if (this.#queue.length > 0 && !(await this.listening.isWelcome())) return this.close();
      const [first, ...others] = this.#queue;
      if (first) {
        this.#queue = [];
        this.#queued = 0;
        controller.enqueue(others.length > 0 ? Buffer.concat([first, ...others]) : first);
        return;
      }
      if (this.#isBehind) await this.#catchUp();
      else await this.#sleep();
    }
  }

  #sleep(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = undefined;
        resolve();
      };
    });
  }

  async #catchUp(): Promise<void> {
    this.#isBehind = false;
    this.#isLooking = true;
    try {
      // What other programs left belongs to what waits.
      const { who } = this.listening;
      if (!this.#hasGreeted) await who.home.mailboxes.adopt(who.name);
      this.#hasGreeted = true;
      if (this.#returned) await this.#tellReturned(this.#returned);
      else for (const mail of await this.#pages.next()) this.#send(mail);
      if (!this.#pages.isRead) this.#isBehind = true;
    } finally {
      this.#isLooking = false;
    }
  }

  async #tellReturned(pages: WaitingPages): Promise<void> {
    // One that came back this very moment may have been told as an arrival.
    for (const mail of await pages.next()) if (!this.#recent.includes(mail.seq)) this.#send(mail);
    if (pages.isRead) this.#returned = null;
  }

  #arrived(mail?: Mail): void {
    if (this.#isClosed) return;
    const isNew = mail === undefined || mail.seq > this.#pages.after;
    if (mail && !isNew) {
      // It was held by a reader when we came by, and waits again; or it was committed before one that was told first.
      if (this.#recent.includes(mail.seq)) return;
      if (this.#queued > QUEUE_BYTES) this.#leave();
      else this.#send(mail);
      return;
    }
    // The journal has it: anyone who reads there, or is too slow, gets it from there.
    if (!mail || this.#isBehind || this.#isLooking || this.#queued > QUEUE_BYTES) {
      this.#isBehind = true;
      this.#wake?.();
      return;
    }
    this.#pages.after = mail.seq;
    this.#send(mail);
  }

  #send(mail: Mail): void {
    this.#recent.push(mail.seq);
    if (this.#recent.length > RECENT) this.#recent.shift();
    this.#enqueue(frameOf(mail));
  }

  #enqueue(frame: Uint8Array): void {
    this.#queue.push(frame);
    this.#queued += frame.length;
    this.#wake?.();
  }
}

let last: { mail: Mail; frame: Uint8Array } | undefined;

/** LF only, and a space after the colon: that is all that the original's clients understand. [BC-B6.1] */
function frameOf(mail: Mail): Uint8Array {
  // A message to a channel goes to many listeners in a row.
  if (last?.mail.text === mail.text && last.mail.seq === mail.seq) return last.frame;
  const line = /[\r\n]/.test(mail.text) ? JSON.stringify(JSON.parse(mail.text)) : mail.text;
  const frame = encoder.encode(`id: ${mail.seq}\ndata: ${line}\n\n`);
  last = { mail, frame };
  return frame;
}

/** The signs of life are spread: ten thousand at one moment would hold up everybody else. */
const SHARES = 25;

/** An agent may listen in many sessions; without an end, one could use up the files of the host. */
const MOST_EACH = 100;

/** Every open stream, and the one clock of them all. */
export class Listeners {
  readonly #shares: Set<Listener>[] = Array.from({ length: SHARES }, () => new Set());
  #clock: ReturnType<typeof setInterval> | undefined;
  /** How many each token has opened. */
  readonly #each = new Map<string, number>();
  #turn = 0;
  #size = 0;
  /** How many were cut because they took nothing. */
  cut = 0;

  constructor(readonly keepaliveMs: number) {}

  get size(): number {
    return this.#size;
  }

  isFull(tokenHash: string): boolean {
    return (this.#each.get(tokenHash) ?? 0) >= MOST_EACH;
  }

  open(listening: ListenerOptions, onClose: (error?: unknown) => void): ReadableStream<Uint8Array> {
    // Its turn comes when the clock has gone round once.
    const share = this.#shares[(this.#turn + SHARES - 1) % SHARES];
    const cutOff = (): void => {
      this.cut += 1;
      listening.cut();
    };
    const listener = new Listener({ ...listening, cut: cutOff }, (one, error) => {
      share?.delete(one);
      this.#size -= 1;
      this.#count(listening.tokenHash, -1);
      this.#rest();
      onClose(error);
    });
    share?.add(listener);
    this.#size += 1;
    this.#count(listening.tokenHash, 1);
    this.#clock ??= setInterval(() => this.#tick(), this.keepaliveMs / SHARES);
    return listener.stream;
  }

  /** Ends every stream. Its readers come back to anyone who answers then. */
  close(): void {
    for (const share of this.#shares) for (const listener of share) listener.close();
  }

  #tick(): void {
    const share = this.#shares[this.#turn];
    this.#turn = (this.#turn + 1) % SHARES;
    for (const listener of share ?? []) listener.keepAlive();
  }

  #count(tokenHash: string, more: number): void {
    const count = (this.#each.get(tokenHash) ?? 0) + more;
    if (count > 0) this.#each.set(tokenHash, count);
    else this.#each.delete(tokenHash);
  }

  #rest(): void {
    if (this.#size > 0) return;
    clearInterval(this.#clock);
    this.#clock = undefined;
  }
}
