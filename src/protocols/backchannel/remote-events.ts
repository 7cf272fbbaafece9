import { readMessage } from '../../core/message.ts';
import type { Message } from '../../core/message.ts';
import type { RelayHttp } from './remote-http.ts';

/** After a failure: this long at first, then longer and longer. */
export const FIRST_PAUSE_MS = 2000;
const LONGEST_PAUSE_MS = 30_000;
/**
 * A stream that is silent this long is dead: a relay says something every 25 s. The original's headers may take as long too, so
 * they get the same time. A laptop that wakes up finds its stream silent for hours, and makes a new one.
 */
export const SILENCE_MS = 60_000;
const LOOK_MS = 5000;
/** No message is as large as this; what is has to be something else. */
const EVENT_LIMIT = 128 * 1024 * 1024;
const EVENT_ID = /^[\x21-\x7e]{1,200}$/;

export interface Events {
  /** Each message as it comes, also those that waited before; after a new connection perhaps once more. */
  onMessage: (message: Message) => void;
  /**
   * Awaited when the stream goes on after the last event that was heard: a relay may pass over what was on loan then and waits
   * again. If it fails, the connection is made again.
   */
  onResumed?: (() => Promise<void>) | undefined;
  /** Told why a connection ended. */
  onTrouble?: ((error: unknown) => void) | undefined;
  /** Tests need not wait for a minute. */
  silenceMs?: number;
}

/** Listens to an agent's stream until it is closed; a connection that ends is made again, forever. */
export class EventStream {
  readonly #closed = new AbortController();
  readonly #running: Promise<void>;
  /** Where a relay numbers its events, it goes on after this one. */
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
      // It was alive: whatever ended it is new.
      if (this.#heardAt > began) pause = FIRST_PAUSE_MS;
      // With a little chance in it, so that not all who lost the same relay come back at the same moment.
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
      // Something that is no message: nothing for us.
    }
    if (message && !this.#closed.signal.aborted) this.events.onMessage(message);
    // Only after it was handed on: an event that we could not take in comes again. What cannot be in a header is no number.
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

/** Cuts a stream of bytes into events: lines of `data:` and `id:`, ended by an empty line. Comments and other fields are passed over. */
export class EventParser {
  readonly #decoder = new TextDecoder();
  /** The beginning of a line whose end has not come yet, in pieces: a long one comes in thousands of them. */
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
