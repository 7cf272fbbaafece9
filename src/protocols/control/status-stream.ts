import type { SessionState } from '../../core/ports/session.ts';
import type { Connection } from '../../wire/connection.ts';
import { shownState } from './commands.ts';
import { ERRORS } from './phrases.ts';

/** The pause between two events: callers read one event per `recv`, and two in one packet would break them. */
const GAP_MS = 10;
const LOOK_AGAIN_MS = 100;

/** spec: control#limits */
export interface StreamLimits {
  /** How many bytes may wait for a subscriber that does not read, and for how long. */
  stalledBytes: number;
  stalledMs: number;
}

const LIMITS: StreamLimits = { stalledBytes: 1024 * 1024, stalledMs: 60_000 };

/** Sends the events of one subscriber in order, one write each, with a pause between. Drops a subscriber that does not read. */
export class StatusStream {
  readonly #over = Promise.withResolvers<void>();
  readonly #shown = new Map<string, string>();
  #queue: string[] = [];
  #bytes = 0;
  #stalledSince: number | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isOver = false;

  constructor(
    readonly connection: Connection,
    readonly limits: StreamLimits = LIMITS,
  ) {}

  subscribed(names: readonly string[]): void {
    this.#push({ event: 'subscribed', session: names.join(',') });
  }

  /** Sends the state of a session if it changed; null: there is no such session. */
  show(session: string, state: SessionState | null): void {
    const before = this.#shown.get(session);
    const event = eventFor(session, state, before);
    const text = JSON.stringify(event);
    if (text === before) return;
    this.#shown.set(session, text);
    this.#push(event);
  }

  /** Returns when the stream has ended. */
  async over(): Promise<void> {
    return this.#over.promise;
  }

  end(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#queue = [];
    this.#over.resolve();
  }

  #push(event: Record<string, unknown>): void {
    if (this.#isOver) return;
    const text = JSON.stringify(event);
    this.#queue.push(text);
    this.#bytes += text.length;
    if (this.#timer === undefined) this.#next();
    else if (this.#bytes > this.limits.stalledBytes) this.#drop();
  }

  #next(): void {
    this.#timer = undefined;
    const waiting = this.connection.waiting?.() ?? 0;
    if (waiting > 0) {
      this.#stalledSince ??= performance.now();
      if (performance.now() - this.#stalledSince > this.limits.stalledMs) return this.#drop();
      this.#timer = setTimeout(() => this.#next(), Math.min(LOOK_AGAIN_MS, this.limits.stalledMs));
      return;
    }
    this.#stalledSince = null;
    const text = this.#queue.shift();
    if (text === undefined) return;
    this.#bytes -= text.length;
    if (!this.connection.write(text)) return this.#drop();
    this.#timer = setTimeout(() => this.#next(), GAP_MS + 1);
  }

  #drop(): void {
    this.end();
    this.connection.cut();
  }
}

/** The event for a state. A session that was removed is `stopped`; one that never existed is an error until it is made. */
function eventFor(session: string, state: SessionState | null, before: string | undefined): Record<string, unknown> {
  if (state) return { event: 'status', session, ...shownState(state) };
  const unknown = { event: 'error', session, error: ERRORS.notFound };
  if (before === undefined || before === JSON.stringify(unknown)) return unknown;
  return { event: 'status', session, status: 'stopped' };
}
