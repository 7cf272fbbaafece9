import { Cancelled, Initialize } from '../../protocol/host.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { Bucket } from '../relay/rate.ts';
import { Calls } from './calls.ts';
import type { Engine } from './engine.ts';
import { errorOf, FRAME_LIMIT, isOurFault, readFrame, RPC, RpcError } from './frames.ts';
import type { Frame, Id, Params } from './frames.ts';
import { Lanes } from './lanes.ts';
import { laneOf, methodFor, parsed } from './methods.ts';
import type { Method } from './methods.ts';
import { agree } from './terms.ts';
import type { Terms } from './terms.ts';
import { PeerWire } from './wire.ts';

/** The way back to the other side, whatever carries it. */
export interface Pipe {
  /** Hands one frame on. False if the other side takes so little that nothing more can be kept for it. */
  write(frame: string): boolean;
  /** Ends the connection when what was written has gone. */
  close(why: string): void | Promise<void>;
  /** Ends it now, and forgets what was written. */
  cut(): void;
}

export interface PeerDeps {
  engine: Engine;
  /** Of this program. */
  version: string;
  now: () => number;
  /** Never a body, never a token, never what a peer wrote. */
  log: (event: string, facts: Record<string, string | number | boolean>) => void;
  limits?: Partial<PeerLimits>;
}

/** spec: host#limits */
export interface PeerLimits {
  /** Frames that were read and are not done yet. Notifications may be twice as many: they cannot be told to wait. */
  inHand: number;
  requestsPerMinute: number;
}

const LIMITS: PeerLimits = { inHand: 1000, requestsPerMinute: 120_000 };

type Request = Extract<Frame, { kind: 'request' }>;
type Notification = Extract<Frame, { kind: 'notification' }>;
interface Begun {
  isCancelled: boolean;
}

/**
 * One connection, from its first frame to its last.
 *
 * It is *new* until `initialize` succeeded, and everything else is refused. Then it is *agreed*: it is a harness or a surface, for as
 * long as it lasts. It is *over* when the other side went, or was cut because it read or wrote too much at once. What was asked
 * before that is still done; then the engine hears that the connection is gone. Its sessions can be taken up by a further one,
 * and nothing is lost: what was not acknowledged waits.
 */
export class Peer {
  readonly #limits: PeerLimits;
  readonly #calls = new Calls((frame) => this.#write(frame));
  readonly #lanes = new Lanes();
  readonly #begun = new Map<Id, Begun>();
  readonly #requests: Bucket;
  #wire: PeerWire | undefined;
  #inHand = 0;
  #isParting = false;
  #over: Promise<void> | undefined;

  constructor(
    readonly deps: PeerDeps,
    readonly pipe: Pipe,
  ) {
    this.#limits = { ...LIMITS, ...deps.limits };
    this.#requests = new Bucket(this.#limits.requestsPerMinute, deps.now());
  }

  /** One frame from the other side. Never throws. */
  receive(bytes: string | Uint8Array): void {
    if (this.#over) return;
    const frame = readFrame(bytes);
    switch (frame.kind) {
      case 'response':
        this.#calls.answered(frame.id, frame.outcome);
        return;
      case 'broken':
        if (frame.id === undefined) return this.#tell(frame.error);
        return this.#fail(frame.id, frame.error);
      case 'notification':
        return this.#notified(frame);
      case 'request':
        return this.#asked(frame);
    }
  }

  /** A frame came that was too long to be kept: whose it was, nobody knows. */
  tooLong(): void {
    this.#fail(null, new Refusal('too_large', `a frame may have ${FRAME_LIMIT} bytes; this one was not read`));
  }

  /** When everything that was asked so far is done and answered. */
  idle(): Promise<void> {
    return this.#lanes.idle();
  }

  /** The other side is gone. Returns when what it had asked for is done, and the engine knows. */
  async ended(): Promise<void> {
    this.#over ??= this.#finish();
    return this.#over;
  }

  /** Parts from the other side: takes nothing new, and leaves when what was asked for is answered, or after `patience`. */
  async part(why: string, patience: Promise<void>): Promise<void> {
    this.#isParting = true;
    await Promise.race([this.idle(), patience]);
    if (!this.#over) await Promise.race([this.pipe.close(why), patience]);
    await Promise.race([this.ended(), patience]);
  }

  async #finish(): Promise<void> {
    this.#calls.end();
    await this.#lanes.idle();
    try {
      if (this.#wire) this.deps.engine.gone(this.#wire);
    } catch (error) {
      this.#confess(error);
    }
    this.deps.log('host_peer_gone', { role: this.#wire?.terms.role ?? 'none' });
  }

  #asked(request: Request): void {
    try {
      if (request.method === 'initialize') return this.#answer(request.id, this.#initialize(request.params));
      const method = this.#methodFor(request);
      this.#admit();
      if (method.isInstant) return this.#answer(request.id, method.run(this.#caller(), request.params) ?? {});
      const begun: Begun = { isCancelled: false };
      this.#begun.set(request.id, begun);
      this.#begin(request, method, async () => {
        if (this.#begun.get(request.id) === begun) this.#begun.delete(request.id);
        if (begun.isCancelled) throw new RpcError(RPC.cancelled, 'cancelled before it began; nothing was done');
        const result = await method.run(this.#caller(), request.params);
        this.#answer(request.id, method.isNotification ? {} : (result ?? {}));
      });
    } catch (error) {
      this.#fail(request.id, error);
    }
  }

  #notified(notification: Notification): void {
    try {
      const { method: name, params } = notification;
      if (name === 'notifications/cancelled') return this.#cancel(params);
      const method = this.#methodFor(notification);
      if (!method.isNotification)
        throw new RpcError(RPC.invalid, `${name} was not done: it has an answer, so send it with an id`);
      // It cannot be told to wait, and to leave it out would be a loss.
      if (this.#inHand >= 2 * this.#limits.inHand) return this.#cut('too many notifications');
      this.#begin(notification, method, async () => {
        await method.run(this.#caller(), params);
      });
    } catch (error) {
      this.#tell(error);
    }
  }

  #initialize(params: Params): Params {
    if (this.#wire) throw new RpcError(RPC.invalid, 'this connection is initialized; open another one for other terms');
    const terms: Terms = agree(parsed(Initialize, params));
    this.#wire = new PeerWire(this.#calls, terms);
    const { version: protocolVersion, role, capabilities } = terms;
    this.deps.log('host_peer_agreed', { role, protocolVersion });
    return {
      protocolVersion,
      serverInfo: { name: 'parley', version: this.deps.version },
      capabilities,
      role,
      limits: { frameBytes: FRAME_LIMIT, ...this.#limits },
    };
  }

  #caller(): { engine: Engine; wire: PeerWire; terms: Terms } {
    if (!this.#wire) throw new RpcError(RPC.invalid, 'say initialize first');
    return { engine: this.deps.engine, wire: this.#wire, terms: this.#wire.terms };
  }

  #methodFor({ method }: Request | Notification): Method {
    return methodFor(method, this.#caller().terms.role);
  }

  /** Too much at once is refused, never kept: the caller still has it, and tries again. spec: host#limits */
  #admit(): void {
    if (this.#isParting) throw busy('the host is stopping', 2);
    if (this.#inHand >= this.#limits.inHand) throw busy(`${this.#inHand} requests are not done yet`, 1);
    const seconds = this.#requests.take(this.deps.now());
    if (seconds > 0) throw busy('too many requests', seconds);
  }

  #begin(frame: Request | Notification, method: Method, work: () => Promise<void>): void {
    this.#inHand += 1;
    const guarded = async (): Promise<void> => {
      try {
        await work();
      } catch (error) {
        if (frame.kind === 'request') this.#fail(frame.id, error);
        else this.#tell(error);
      } finally {
        this.#inHand -= 1;
      }
    };
    if (method.isFree) this.#lanes.runFree(guarded);
    else this.#lanes.run(laneOf(frame.params), guarded);
  }

  /** What has not begun will not begin; what has, is finished and answered. spec: host#cancelled */
  #cancel(params: Params): void {
    const begun = this.#begun.get(parsed(Cancelled, params).requestId);
    if (begun) begun.isCancelled = true;
  }

  #answer(id: Id, result: unknown): void {
    const frame = JSON.stringify({ jsonrpc: '2.0', id, result });
    if (frame.length <= FRAME_LIMIT) return this.#send(frame);
    this.#fail(id, new Refusal('too_large', `the answer has more than ${FRAME_LIMIT} bytes; ask for fewer with limit`));
  }

  #fail(id: Id, error: unknown): void {
    if (isOurFault(error)) this.#confess(error);
    this.#write({ jsonrpc: '2.0', id, error: errorOf(error) });
  }

  /** What nobody can be answered is told to those who asked for word of such things. spec: host#logging */
  #tell(error: unknown): void {
    if (isOurFault(error)) this.#confess(error);
    if (!this.#wire?.terms.capabilities.utilities.logging) return;
    this.#calls.notify('notifications/message', { level: 'warning', logger: 'parley', data: errorOf(error) });
  }

  #confess(error: unknown): void {
    const told = error instanceof Error ? { error: error.message, stack: error.stack ?? '' } : { error: String(error) };
    this.deps.log('host_failed', told);
  }

  #write(frame: Params): void {
    this.#send(JSON.stringify(frame));
  }

  #send(frame: string): void {
    if (this.#over) return;
    if (!this.pipe.write(frame)) this.#cut('it reads too slowly');
  }

  #cut(why: string): void {
    if (this.#over) return;
    this.deps.log('host_peer_cut', { why });
    // Kept in the peer: whoever notices the end of the connection waits for it.
    void this.ended();
    this.pipe.cut();
  }
}

function busy(what: string, seconds: number): RpcError {
  const { code, message } = errorOf(new Refusal('busy', `${what}; try again in ${seconds} s`));
  return new RpcError(code, message, { refusal: 'busy', retryAfterMs: seconds * 1000 });
}
