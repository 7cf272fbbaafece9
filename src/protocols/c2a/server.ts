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

/** More connections are not accepted at once: each may keep some megabytes for a slow reader. */
const MOST_CONNECTIONS = 500;
/** How long open requests may take when the host stops. */
const STOP_MS = 5000;

export interface HostServerDeps {
  engine: Engine;
  /** Of this program. */
  version: string;
  now: () => number;
  /** Never a body, never a token, never text of a peer. */
  log: (event: string, facts: Record<string, string | number | boolean>) => void;
  limits?: Partial<HostLimits>;
}

/** spec: host#limits */
interface HostLimits {
  /** Frames that were read and are not done yet. Notifications may be twice as many: they cannot be refused. */
  inHand: number;
  requestsPerMinute: number;
}

const LIMITS: HostLimits = { inHand: 1000, requestsPerMinute: 120_000 };

/** Every open connection, over whatever transport. */
export class HostServer {
  readonly #connections = new Set<HostConnection>();
  #isClosed = false;

  constructor(readonly deps: HostServerDeps) {}

  /** Null if there are too many, or if the host is stopping. */
  accept = (connection: Connection): HostConnection | null => {
    if (this.#isClosed || this.#connections.size >= MOST_CONNECTIONS) return null;
    const accepted = new HostConnection(this.deps, connection, () => this.#connections.delete(accepted));
    this.#connections.add(accepted);
    return accepted;
  };

  /** Accepts nobody, and ends every connection after its open requests were answered. */
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
 * It is *new* until `initialize` succeeded, and everything else is refused. Then it is *agreed*: it is a harness or a surface for the
 * rest of its life. It is *over* when the other side went, or was cut because it read too little or wrote too much at once. What was
 * asked before that is still done; then the engine hears that the connection is gone. A further connection can continue its
 * sessions, and nothing is lost: what was not acknowledged waits.
 */
export class HostConnection implements Receiver {
  readonly #limits: HostLimits;
  readonly #peer: JsonRpcPeer;
  readonly #queues = new SessionQueues();
  /** Requests that have not begun, each with whether it was cancelled. */
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

  /** The other side is gone. Returns when what it asked for is done, and the engine knows. */
  async ended(): Promise<void> {
    this.#over ??= this.#finish();
    return this.#over;
  }

  /** Takes nothing new, and ends when everything asked is answered, or after `timeout`. */
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
        throw new RpcError(RPC.invalid, `${name} was not done: it has an answer, so send it with an id`);
      // It cannot be refused, and to drop it would be a loss.
      if (this.#inHand >= 2 * this.#limits.inHand) return this.#cut('too many notifications');
      const run = async (): Promise<void> => void (await method.run(caller, params));
      this.#enqueue(method, params, run, (error) => this.#warn(error));
    } catch (error) {
      this.#warn(error);
    }
  }

  #initialize(params: Params): Params {
    if (this.#wire) throw new RpcError(RPC.invalid, 'this connection is initialized; open another one for other terms');
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
    if (!this.#wire) throw new RpcError(RPC.invalid, 'say initialize first');
    return { engine: this.deps.engine, wire: this.#wire, agreement: this.#wire.agreement };
  }

  /** Too much at once is refused, never kept: the caller still has it, and tries again. spec: host#limits */
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

  /** What has not begun will not begin; what has, is finished and answered. spec: host#cancelled */
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

  /** An error without a request goes to peers that offered to log such things. spec: host#logging */
  #warn(error: unknown): void {
    const data = this.#bodyOf(error);
    if (!this.#wire?.agreement.capabilities.utilities.logging) return;
    this.#peer.notify('notifications/message', { level: 'warning', logger: 'parley', data });
  }

  /** What the peer is told. An error that nobody outside has caused is logged. */
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
    // The transport waits for the same promise when it notices the end.
    void this.ended();
    this.connection.cut();
  }
}

/**
 * Requests of one session run in the order in which they came: a turn that ended after a message was sent must not be noticed before
 * it. Sessions do not wait for each other. A request without a session waits for everything before it, and every session waits for
 * it. A *free* one waits for nothing. The work of a queue never throws.
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
    // Nothing waits behind it: the session's next request may begin at once.
    void done.then(() => this.#sessions.get(session) === done && this.#sessions.delete(session));
  }

  runFree(work: () => Promise<void>): void {
    const running = work();
    this.#free.add(running);
    void running.then(() => this.#free.delete(running));
  }

  /** Returns when everything asked so far is done. */
  async idle(): Promise<void> {
    await Promise.all([this.#shared, ...this.#sessions.values(), ...this.#free]);
  }
}

function busy(what: string, seconds: number): RpcError {
  const message = `${what}; try again in ${seconds} s`;
  return new RpcError(REFUSALS.busy.rpc, message, { refusal: 'busy', retryAfterMs: seconds * 1000 });
}
