import { Cancelled, Initialize } from './shapes.ts';
import { REFUSALS, Refusal } from '../../core/refusal.ts';
import { storageTrouble } from '../../core/disk.ts';
import type { Connection, Receiver } from '../../wire/connection.ts';
import { errorBody, FRAME_LIMIT, JsonRpcPeer, RPC, RpcError } from '../../wire/jsonrpc.ts';
import type { Id, Notification, Params, Request, RpcErrorBody } from '../../wire/jsonrpc.ts';
import { Bucket } from '../../wire/rate-limit.ts';
import { agree } from './agreement.ts';
import { PeerWire } from './events.ts';
import { methodFor, parsed } from './methods.ts';
import type { Caller, Engine, Method } from './methods.ts';

/** The most connections at once: each may buffer some megabytes for a slow reader. */
const MOST_CONNECTIONS = 500;
/** How long open requests may take when the host stops. */
const STOP_MS = 5000;

export interface HostServerDeps {
  engine: Engine;
  /** The version of this program. */
  version: string;
  now: () => number;
  /** Never logs a body, a token or text of a peer. */
  log: (event: string, facts: Record<string, string | number | boolean>) => void;
  limits?: Partial<HostLimits>;
}

/** spec: host#limits */
interface HostLimits {
  /** The most requests in progress. Notifications cannot be refused, so their limit is twice this. */
  inHand: number;
  requestsPerMinute: number;
}

const LIMITS: HostLimits = { inHand: 1000, requestsPerMinute: 120_000 };

/** Every open connection, over whatever transport. */
export class HostServer {
  readonly #connections = new Set<HostConnection>();
  #isClosed = false;

  constructor(readonly deps: HostServerDeps) {}

  /** Null if there are too many connections, or if the host is stopping. */
  accept = (connection: Connection): HostConnection | null => {
    if (this.#isClosed || this.#connections.size >= MOST_CONNECTIONS) return null;
    const accepted = new HostConnection(this.deps, connection, () => this.#connections.delete(accepted));
    this.#connections.add(accepted);
    return accepted;
  };

  /** Accepts no new connection, and ends every open one after its requests were answered. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const { promise: timeout, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, STOP_MS);
    await Promise.all([...this.#connections].map((one) => one.stop('the host is stopping', timeout)));
    clearTimeout(timer);
    this.#connections.clear();
  }
}

/**
 * One connection, from its first frame to its last.
 *
 * It is *new* until `initialize` succeeds; it refuses every other request. Then it is *agreed*: a harness or a surface until its end. It
 * is *over* when the other side leaves, or when we cut it because it reads too slowly or writes too much at once. Requests that were
 * received before are still done; then the engine hears that the connection is gone. Another connection can continue its sessions, and
 * nothing is lost: events without an acknowledgement wait.
 */
export class HostConnection implements Receiver {
  readonly #limits: HostLimits;
  readonly #peer: JsonRpcPeer;
  readonly #queues = new SessionQueues();
  /** Requests that have not begun, and whether each was cancelled. */
  readonly #queued = new Map<Id, { isCancelled: boolean }>();
  readonly #requests: Bucket;
  #wire: PeerWire | undefined;
  #inHand = 0;
  #isStopping = false;
  #over: Promise<void> | undefined;

  constructor(
    readonly deps: HostServerDeps,
    readonly connection: Connection,
    readonly onEnded: () => void = () => {},
  ) {
    this.#limits = { ...LIMITS, ...deps.limits };
    this.#requests = new Bucket(this.#limits.requestsPerMinute, deps.now());
    this.#peer = new JsonRpcPeer((frame) => this.#write(frame), {
      request: (request) => this.#request(request),
      notification: (notification) => this.#notification(notification),
      broken: (error, id) => (id === undefined ? this.#warn(error) : this.#fail(id, error)),
    });
  }

  /** Takes one frame from the other side. Never throws. */
  receive(frame: string | Uint8Array): void {
    if (!this.#over) this.#peer.receive(frame);
  }

  tooLong(): void {
    this.#fail(null, new Refusal('too_large', `a frame may have ${FRAME_LIMIT} bytes; this one was not read`));
  }

  idle(): Promise<void> {
    return this.#queues.idle();
  }

  /** The other side is gone. Returns when its requests are done and the engine knows. */
  async ended(): Promise<void> {
    this.#over ??= this.#finish();
    return this.#over;
  }

  /** Takes no new request, and ends when every request is answered, or after `timeout`. */
  async stop(why: string, timeout: Promise<void>): Promise<void> {
    this.#isStopping = true;
    await Promise.race([this.idle(), timeout]);
    if (!this.#over) await Promise.race([this.connection.close(why), timeout]);
    await Promise.race([this.ended(), timeout]);
  }

  async #finish(): Promise<void> {
    this.#peer.close();
    await this.#queues.idle();
    try {
      if (this.#wire) this.deps.engine.gone(this.#wire);
    } catch (error) {
      this.#logBug(error);
    }
    this.deps.log('host_peer_gone', { role: this.#wire?.agreement.role ?? 'none' });
    this.onEnded();
  }

  #request({ id, method: name, params }: Request): void {
    try {
      if (name === 'initialize') return this.#answer(id, this.#initialize(params));
      const caller = this.#caller();
      const method = methodFor(name, caller.agreement.role);
      this.#admit();
      if (method.order === 'instant') return this.#answer(id, method.run(caller, params) ?? {});
      const queued = { isCancelled: false };
      this.#queued.set(id, queued);
      const run = async (): Promise<void> => {
        if (this.#queued.get(id) === queued) this.#queued.delete(id);
        if (queued.isCancelled) throw new RpcError(RPC.cancelled, 'cancelled before it began; nothing was done');
        const result = await method.run(caller, params);
        this.#answer(id, method.isNotification ? {} : (result ?? {}));
      };
      this.#enqueue(method, params, run, (error) => this.#fail(id, error));
    } catch (error) {
      this.#fail(id, error);
    }
  }

  #notification({ method: name, params }: Notification): void {
    try {
      if (name === 'notifications/cancelled') return this.#cancel(params);
      const caller = this.#caller();
      const method = methodFor(name, caller.agreement.role);
      if (!method.isNotification)
        throw new RpcError(RPC.invalid, `${name} was not done: it is a request, so send it with an id`);
      // A notification cannot be refused, and dropping it would lose it.
      if (this.#inHand >= 2 * this.#limits.inHand) return this.#cut('too many notifications');
      const run = async (): Promise<void> => void (await method.run(caller, params));
      this.#enqueue(method, params, run, (error) => this.#warn(error));
    } catch (error) {
      this.#warn(error);
    }
  }

  #initialize(params: Params): Params {
    if (this.#wire)
      throw new RpcError(RPC.invalid, 'this connection is initialized; open another to agree on other terms');
    const agreement = agree(parsed(Initialize, params));
    this.#wire = new PeerWire(this.#peer, agreement);
    const { version: protocolVersion, role, capabilities } = agreement;
    this.deps.log('host_peer_agreed', { role, protocolVersion });
    return {
      protocolVersion,
      serverInfo: { name: 'parley', version: this.deps.version },
      capabilities,
      role,
      limits: { frameBytes: FRAME_LIMIT, ...this.#limits },
    };
  }

  #caller(): Caller {
    if (!this.#wire) throw new RpcError(RPC.invalid, 'call initialize first');
    return { engine: this.deps.engine, wire: this.#wire, agreement: this.#wire.agreement };
  }

  /** Refuses requests over the limits with `busy`. The caller still has the request and tries again. spec: host#limits */
  #admit(): void {
    if (this.#isStopping) throw busy('the host is stopping', 2);
    if (this.#inHand >= this.#limits.inHand) throw busy(`${this.#inHand} requests are not done yet`, 1);
    const seconds = this.#requests.take(this.deps.now());
    if (seconds > 0) throw busy('too many requests', seconds);
  }

  #enqueue(method: Method, params: Params, run: () => Promise<void>, failed: (error: unknown) => void): void {
    this.#inHand += 1;
    const guarded = async (): Promise<void> => {
      try {
        await run();
      } catch (error) {
        failed(error);
      } finally {
        this.#inHand -= 1;
      }
    };
    const { sessionId } = params;
    if (method.order === 'free') this.#queues.runFree(guarded);
    else this.#queues.run(typeof sessionId === 'string' ? sessionId : undefined, guarded);
  }

  /** Cancels a request that has not begun. One that has begun is finished and answered. spec: host#cancelled */
  #cancel(params: Params): void {
    const queued = this.#queued.get(parsed(Cancelled, params).requestId);
    if (queued) queued.isCancelled = true;
  }

  #answer(id: Id, result: unknown): void {
    if (this.#peer.answer(id, result, FRAME_LIMIT)) return;
    this.#fail(id, new Refusal('too_large', `the answer has more than ${FRAME_LIMIT} bytes; ask for fewer with limit`));
  }

  #fail(id: Id, error: unknown): void {
    this.#peer.fail(id, this.#bodyOf(error));
  }

  /** Sends an error that belongs to no request to peers that have the `logging` capability. spec: host#logging */
  #warn(error: unknown): void {
    const data = this.#bodyOf(error);
    if (!this.#wire?.agreement.capabilities.utilities.logging) return;
    this.#peer.notify('notifications/message', { level: 'warning', logger: 'parley', data });
  }

  /** The error for the peer. Logs an error that is our bug. */
  #bodyOf(error: unknown): RpcErrorBody {
    if (errorBody(error) === null) this.#logBug(error);
    return errorBody(storageTrouble(error)) ?? { code: RPC.internal, message: "internal error; see the host's log" };
  }

  #logBug(error: unknown): void {
    const facts =
      error instanceof Error ? { error: error.message, stack: error.stack ?? '' } : { error: String(error) };
    this.deps.log('host_failed', facts);
  }

  #write(frame: string): void {
    if (!this.#over && !this.connection.write(frame)) this.#cut('it reads too slowly');
  }

  #cut(why: string): void {
    if (this.#over) return;
    this.deps.log('host_peer_cut', { why });
    // The transport waits for the same promise when it notices that the connection closed.
    void this.ended();
    this.connection.cut();
  }
}

/**
 * Runs requests of one session in the order of arrival: the end of a turn must not overtake a message that was sent before it. Sessions
 * do not wait for each other. A request without a session waits for all earlier requests, and later ones of every session wait for it. A
 * *free* request waits for nothing. `work` never throws.
 */
class SessionQueues {
  readonly #sessions = new Map<string, Promise<void>>();
  readonly #free = new Set<Promise<void>>();
  #shared: Promise<void> = Promise.resolve();

  run(session: string | undefined, work: () => Promise<void>): void {
    if (session === undefined) {
      this.#shared = this.idle().then(work);
      this.#sessions.clear();
      return;
    }
    const done = (this.#sessions.get(session) ?? this.#shared).then(work);
    this.#sessions.set(session, done);
    // If nothing is queued behind it, forget the queue: the session's next request may begin at once.
    void done.then(() => this.#sessions.get(session) === done && this.#sessions.delete(session));
  }

  runFree(work: () => Promise<void>): void {
    const running = work();
    this.#free.add(running);
    void running.then(() => this.#free.delete(running));
  }

  /** Returns when every request so far is done. */
  async idle(): Promise<void> {
    await Promise.all([this.#shared, ...this.#sessions.values(), ...this.#free]);
  }
}

function busy(what: string, seconds: number): RpcError {
  const message = `${what}; try again in ${seconds} s`;
  return new RpcError(REFUSALS.busy.rpc, message, { refusal: 'busy', retryAfterMs: seconds * 1000 });
}
