import type { Who } from '../../core/mail/workspace.ts';
import { WaitingPages } from '../../core/mail/deliver.ts';
import type { Mail } from '../../core/ports/journal.ts';
import type { Watch } from '../../core/ports/mailboxes.ts';

/** The most bytes queued for a slow listener. Later messages are read from the journal when it catches up. */
const QUEUE_BYTES = 256 * 1024;
/** How many numbers of sent messages are remembered, to tell a message that was released from one that was sent before. */
const RECENT = 128;
/** A listener that reads nothing for this many keep-alives is cut. It can connect again and loses nothing. */
const MOST_MISSED = 3;

const encoder = new TextEncoder();
const HELLO = encoder.encode(': listening\n\n');
const KEEPALIVE = encoder.encode(': keepalive\n\n');

/** Who listens, and after which message. */
export interface ListenerOptions {
  who: Who;
  /** The hash of the token that opened the stream. */
  tokenHash: string;
  /** The number of the last message that the listener has seen. */
  after: number;
  /** Called before each send: false once the token that opened the stream was revoked or belongs to another agent. */
  isWelcome: () => Promise<boolean>;
  /** Ends the connection of a listener that reads nothing. */
  cut: () => void;
}

/**
 * One open stream. It sends the waiting messages in order of arrival, then new ones. It claims nothing. spec: relay#events
 *
 * It is *behind* until it has read the whole journal, then *live*: it passes new messages on without reading them from the journal. A slow
 * reader puts it behind again, and costs no more memory than its queue.
 */
export class Listener {
  readonly stream: ReadableStream<Uint8Array>;
  readonly #pages: WaitingPages;
  /** For a reader that reconnects: messages that were leased when it last listened, and that wait again now. */
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
    /** Called at the end, with the error if ours ended the stream. */
    readonly onClose: (listener: Listener, error?: unknown) => void,
  ) {
    const { who, after } = listening;
    this.#pages = new WaitingPages(who, after);
    this.#returned = after > 0 ? new WaitingPages(who, 0, after) : null;
    // Watch before the first look, so that no arrival in between is missed.
    this.#watch = who.home.mailboxes.watch(who.name, (mail) => this.#arrived(mail));
    this.stream = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        // A reader that is cut by an error of ours reconnects and gets everything again.
        pull: (controller) => this.#pull(controller).catch((error: unknown) => this.close(error)),
        cancel: () => this.close(),
      },
      // Produce nothing before the connection can take it.
      { highWaterMark: 0 },
    );
  }

  /** Sends a keep-alive, if nothing else is queued. */
  keepAlive(): void {
    if (this.#wake) return this.#enqueue(KEEPALIVE);
    this.#missed += 1;
    if (this.#missed >= MOST_MISSED) this.#leave();
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
      // The reader has closed it already.
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
      // Files that other programs left wait too.
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
    // A message released just now may have been sent as an arrival.
    for (const mail of await pages.next()) if (!this.#recent.includes(mail.seq)) this.#send(mail);
    if (pages.isRead) this.#returned = null;
  }

  #arrived(mail?: Mail): void {
    if (this.#isClosed) return;
    const isNew = mail === undefined || mail.seq > this.#pages.after;
    if (mail && !isNew) {
      // An old number: the message was released, or was committed before one that was sent first.
      if (this.#recent.includes(mail.seq)) return;
      if (this.#queued > QUEUE_BYTES) this.#leave();
      else this.#send(mail);
      return;
    }
    // The journal has it: a listener that is behind or too slow reads it there.
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

/** LF only, and a space after the colon: the original's clients understand nothing else. [BC-B6.1] */
function frameOf(mail: Mail): Uint8Array {
  // A message to a channel goes to many listeners in a row: reuse the frame.
  if (last?.mail.text === mail.text && last.mail.seq === mail.seq) return last.frame;
  const line = /[\r\n]/.test(mail.text) ? JSON.stringify(JSON.parse(mail.text)) : mail.text;
  const frame = encoder.encode(`id: ${mail.seq}\ndata: ${line}\n\n`);
  last = { mail, frame };
  return frame;
}

/** Keep-alives are spread over time: ten thousand at once would delay every request. */
const KEEPALIVE_SLOTS = 25;

/** The most streams per token: an agent may listen in many sessions, but must not use up the host's open files. */
const MOST_PER_TOKEN = 100;

/** All open streams, with one clock for their keep-alives. */
export class Listeners {
  readonly #shares: Set<Listener>[] = Array.from({ length: KEEPALIVE_SLOTS }, () => new Set());
  #clock: ReturnType<typeof setInterval> | undefined;
  /** The number of open streams per token. */
  readonly #each = new Map<string, number>();
  #turn = 0;
  #size = 0;
  /** How many streams were cut because their reader read nothing. */
  cut = 0;

  constructor(readonly keepaliveMs: number) {}

  get size(): number {
    return this.#size;
  }

  isFull(tokenHash: string): boolean {
    return (this.#each.get(tokenHash) ?? 0) >= MOST_PER_TOKEN;
  }

  open(listening: ListenerOptions, onClose: (error?: unknown) => void): ReadableStream<Uint8Array> {
    // Its first keep-alive is due after one full round of the clock.
    const share = this.#shares[(this.#turn + KEEPALIVE_SLOTS - 1) % KEEPALIVE_SLOTS];
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
    this.#clock ??= setInterval(() => this.#tick(), this.keepaliveMs / KEEPALIVE_SLOTS);
    return listener.stream;
  }

  /** Ends every stream. The readers reconnect to whichever relay answers then. */
  close(): void {
    for (const share of this.#shares) for (const listener of share) listener.close();
  }

  #tick(): void {
    const share = this.#shares[this.#turn];
    this.#turn = (this.#turn + 1) % KEEPALIVE_SLOTS;
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
