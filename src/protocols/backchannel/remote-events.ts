import { readMessage } from '../../core/message.ts';
import type { Message } from '../../core/message.ts';
import type { RelayHttp } from './remote-http.ts';

/** The first pause after a failure. Each further pause is longer. */
export const FIRST_PAUSE_MS = 2000;
const LONGEST_PAUSE_MS = 30_000;
/**
 * A stream that is silent this long is dead: a relay sends a keep-alive every 25 s. The original's headers may take as long, so they get
 * the same time. A laptop that wakes up finds its stream silent for hours, and connects again.
 */
export const SILENCE_MS = 60_000;
const LOOK_MS = 5000;
/** A larger event cannot be a message. */
const EVENT_LIMIT = 128 * 1024 * 1024;
const EVENT_ID = /^[\x21-\x7e]{1,200}$/;

export interface Events {
  /** Called with each message, first those that wait already. After a reconnect a message may come again. */
  onMessage: (message: Message) => void;
  /**
   * Awaited when a reconnect continues after the last event: a relay may skip messages that were leased then and wait again. If this fails,
   * the stream connects again.
   */
  onResumed?: (() => Promise<void>) | undefined;
  /** Called with the reason when a connection ends. */
  onTrouble?: ((error: unknown) => void) | undefined;
  /** Replaces `SILENCE_MS` in tests. */
  silenceMs?: number;
}

/** Listens to an agent's stream until it is closed, and reconnects whenever a connection ends. */
export class EventStream {
  readonly #closed = new AbortController();
  readonly #running: Promise<void>;
  /** The number of the last event, if the relay numbers events. A reconnect continues after it. */
  #last: string | undefined;
  #heardAt = Date.now();

  constructor(
    readonly http: RelayHttp,
    readonly path: string,
    readonly events: Events,
  ) {
    this.#running = this.#run();
  }

  close(): Promise<void> {
    this.#closed.abort();
    return this.#running;
  }

  async #run(): Promise<void> {
    let pause = FIRST_PAUSE_MS;
    while (!this.#closed.signal.aborted) {
      const began = Date.now();
      try {
        await this.#listen();
      } catch (error) {
        if (!this.#closed.signal.aborted) this.events.onTrouble?.(error);
      }
      // The connection worked: start again with a short pause.
      if (this.#heardAt > began) pause = FIRST_PAUSE_MS;
      // With some randomness, so that the agents of one relay do not all reconnect at once.
      await this.#sleep(pause * (1 + Math.random() / 4));
      pause = Math.min(pause * 1.5, LONGEST_PAUSE_MS);
    }
  }

  async #listen(): Promise<void> {
    const dead = new AbortController();
    let heard = Date.now();
    const silenceMs = this.events.silenceMs ?? SILENCE_MS;
    const timer = setInterval(
      () => {
        if (Date.now() - heard > silenceMs) dead.abort(new Error('the stream was silent for too long'));
      },
      Math.min(LOOK_MS, silenceMs),
    );
    try {
      const signal = AbortSignal.any([this.#closed.signal, dead.signal]);
      const last = this.#last;
      const headers = { accept: 'text/event-stream', ...(last !== undefined && { 'last-event-id': last }) };
      const response = await this.http.stream(this.path, headers, signal);
      if (last !== undefined) await this.events.onResumed?.();
      heard = Date.now();
      const parser = new EventParser((data, id) => this.#event(data, id));
      for await (const bytes of response.body ?? []) {
        heard = Date.now();
        this.#heardAt = heard;
        parser.add(bytes as Uint8Array);
      }
    } finally {
      clearInterval(timer);
      dead.abort();
    }
  }

  #event(data: string, id: string | undefined): void {
    let message: Message | null = null;
    try {
      message = readMessage(JSON.parse(data));
    } catch {
      // Not a message: ignore it.
    }
    if (message && !this.#closed.signal.aborted) this.events.onMessage(message);
    // Set only after the message was handled, so that a failed one comes again. Ignore an id that a header may not contain.
    if (id !== undefined && EVENT_ID.test(id)) this.#last = id;
  }

  async #sleep(ms: number): Promise<void> {
    const { signal } = this.#closed;
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      signal.addEventListener('abort', () => resolve(clearTimeout(timer)), { once: true });
    });
  }
}

/** Parses a stream of bytes into events: `data:` and `id:` lines, ended by an empty line. Ignores comments and other fields. */
export class EventParser {
  readonly #decoder = new TextDecoder();
  /** The pieces of a line that is not complete yet: a long line arrives in thousands of them. */
  #begun: string[] = [];
  #size = 0;
  #data: string[] = [];
  #id: string | undefined;

  constructor(readonly onEvent: (data: string, id: string | undefined) => void) {}

  add(bytes: Uint8Array): void {
    const text = this.#decoder.decode(bytes, { stream: true });
    this.#size += text.length;
    if (this.#size > EVENT_LIMIT) throw new Error('an event without end');
    const [first = '', ...lines] = text.split('\n');
    this.#begun.push(first);
    if (lines.length === 0) return;
    const last = lines.pop() ?? '';
    for (const line of [this.#begun.join(''), ...lines]) this.#line(line.endsWith('\r') ? line.slice(0, -1) : line);
    this.#begun = [last];
  }

  #line(line: string): void {
    if (line === '') return this.#end();
    const [, field, value = ''] = /^(data|id)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (field === 'data') this.#data.push(value);
    else if (field === 'id') this.#id = value;
  }

  #end(): void {
    const data = this.#data.join('\n');
    this.#data = [];
    this.#size = 0;
    if (data !== '') this.onEvent(data, this.#id);
  }
}
