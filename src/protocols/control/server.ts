import type { Connection, Receiver } from '../../wire/connection.ts';
import type { Log } from '../../core/service.ts';
import { Refusal } from '../../core/refusal.ts';
import { answerRequest } from './commands.ts';
import type { CommandDeps } from './commands.ts';
import { StatusStream } from './status-stream.ts';
import type { StreamLimits } from './status-stream.ts';
import { ControlError, errorAnswer, ERRORS } from './phrases.ts';
import { requestIn } from './requests.ts';
import type { ControlRequest } from './requests.ts';

/** The most open connections. */
const MOST_CONNECTIONS = 1000;
/** The most requests of one connection that wait behind an `ask`. */
const MOST_WAITING = 1000;
const MOST_WAITING_BYTES = 16 * 1024 * 1024;
/** How long a caller may continue to write after a line that is too long. */
const CLOSE_MS = 1000;
/** How long open requests may take to be answered when the server stops. */
const STOP_MS = 2000;

export interface ControlServerDeps extends CommandDeps {
  log: Log;
  streamLimits?: StreamLimits;
}

/** Every open connection to `~/.ccc.sock`. */
export class ControlServer {
  readonly #connections = new Set<ControlConnection>();
  #isClosed = false;

  constructor(readonly deps: ControlServerDeps) {}

  /** Null if there are too many connections, or if the server is stopping. */
  accept = (connection: Connection): ControlConnection | null => {
    if (this.#isClosed || this.#connections.size >= MOST_CONNECTIONS) return null;
    const accepted = new ControlConnection(this.deps, connection, () => this.#connections.delete(accepted));
    this.#connections.add(accepted);
    return accepted;
  };

  get size(): number {
    return this.#connections.size;
  }

  /** Accepts no new connection, ends every stream, and returns when every request is answered, but after 2 s at the latest. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const { promise: timeout, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, STOP_MS);
    await Promise.all([...this.#connections].map((one) => Promise.race([one.stop(), timeout])));
    clearTimeout(timer);
  }
}

/**
 * One connection. Its requests are served one after the other, so answers keep the order of requests. A caller opens another connection to
 * do something during a long `ask`. After `subscribe` the connection is a stream: it ignores further lines until it ends.
 */
class ControlConnection implements Receiver {
  #last: Promise<void> = Promise.resolve();
  #stream: StatusStream | undefined;
  #stopWatching: (() => void) | undefined;
  #waiting = 0;
  #waitingBytes = 0;
  #isOver = false;
  readonly #gone = new AbortController();

  constructor(
    readonly deps: ControlServerDeps,
    readonly connection: Connection,
    readonly onEnded: () => void,
  ) {}

  receive(bytes: string | Uint8Array): void {
    if (this.#isOver || this.#stream) return;
    const line = typeof bytes === 'string' ? new TextEncoder().encode(bytes) : bytes;
    this.#waiting++;
    this.#waitingBytes += line.length;
    if (this.#waiting > MOST_WAITING || this.#waitingBytes > MOST_WAITING_BYTES) {
      this.deps.log('control_flood', { waiting: this.#waiting });
      this.#isOver = true;
      return this.connection.cut();
    }
    this.#last = this.#last
      .then(() => this.#serve(line))
      .finally(() => {
        this.#waiting--;
        this.#waitingBytes -= line.length;
      });
  }

  /** Refuses a line that is too long, then closes the connection, but not at once: a caller that still writes could not read the reason. */
  tooLong(): void {
    if (this.#isOver || this.#stream) return;
    this.#isOver = true;
    this.#last = this.#refuseLine();
  }

  async #refuseLine(): Promise<void> {
    await this.#last;
    this.#write({ ok: false, error: ERRORS.lineTooLong });
    setTimeout(() => void this.connection.close(ERRORS.lineTooLong), CLOSE_MS);
  }

  async idle(): Promise<void> {
    await this.#last;
    await this.#stream?.over();
  }

  async ended(): Promise<void> {
    this.#isOver = true;
    this.#gone.abort();
    this.#endStream();
    this.onEnded();
  }

  async stop(): Promise<void> {
    this.#gone.abort();
    this.#endStream();
    await this.idle();
    await this.connection.close('the server is stopping');
  }

  async #serve(line: Uint8Array): Promise<void> {
    // The caller has gone, or the connection has become a stream.
    if (this.#stream) return;
    try {
      const request = requestIn(line);
      if (request.cmd === 'subscribe') return this.#subscribe(request);
      const tell = (event: Record<string, unknown>): void => this.#write(event);
      this.#write(await answerRequest(this.deps, request, tell, this.#gone.signal));
    } catch (error) {
      if (!(error instanceof ControlError || error instanceof Refusal))
        this.deps.log('control_failed', {
          error: error instanceof Error ? (error.stack ?? error.message) : String(error),
        });
      this.#write(errorAnswer(error));
    }
  }

  #subscribe({ sessions }: ControlRequest): void {
    const { config, control } = this.deps;
    const wanted = [...new Set(sessions)];
    // Read the file before the first event: if it cannot be read, answer an error instead of a stream.
    const names = wanted.length > 0 ? wanted : config.sessions().map(([name]) => name);
    const stream = new StatusStream(this.connection, this.deps.streamLimits);
    this.#stream = stream;
    stream.subscribed(names);
    this.#stopWatching = control.watch(wanted, (session, state) => stream.show(session, state));
    if (this.#isOver) this.#endStream();
  }

  #endStream(): void {
    this.#stopWatching?.();
    this.#stopWatching = undefined;
    this.#stream?.end();
  }

  #write(answer: Record<string, unknown>): void {
    if (!this.connection.write(JSON.stringify(answer))) this.connection.cut();
  }
}
