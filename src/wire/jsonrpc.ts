import { REFUSALS, Refusal } from '../core/refusal.ts';
import { textOf } from './lines.ts';

/** JSON-RPC's own errors, and the one for a request that its caller cancelled. spec: host#errors */
export const RPC = {
  parse: -32700,
  invalid: -32600,
  method: -32601,
  params: -32602,
  internal: -32603,
  cancelled: -32800,
};

/** A longer frame is not read. spec: host#limits */
export const FRAME_LIMIT = 4 * 1024 * 1024;
/** The longest id: we echo ids, so a long one would make us write much. */
const ID_LIMIT = 256;
/** The most requests of ours without an answer. spec: host#limits */
const MOST_PENDING = 1000;
/** How many ids of one repeated request still accept an answer. */
const MOST_IDS = 4;

export type Id = string | number | null;
export type Params = Record<string, unknown>;

export interface RpcErrorBody {
  code: number;
  message: string;
  data?: Params;
}

/** An error of JSON-RPC itself. Other refusals have their codes in `REFUSALS`. */
export class RpcError extends Error {
  override readonly name = 'RpcError';
  constructor(
    readonly code: number,
    message: string,
    readonly data?: Params,
  ) {
    super(message);
  }
}

/** The other side answered with an error. Keep its message out of logs: another program wrote it. */
export class RemoteError extends Error {
  override readonly name = 'RemoteError';
  readonly code: number;
  /** When to try again, if it says so. */
  readonly retryAfterMs?: number;

  constructor({ code, message, data }: RpcErrorBody) {
    super(message);
    this.code = code;
    if (typeof data?.['retryAfterMs'] === 'number') this.retryAfterMs = data['retryAfterMs'];
  }
}

/** The other side did not answer in time. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}

export interface Request {
  kind: 'request';
  id: Id;
  method: string;
  params: Params;
}
export interface Notification {
  kind: 'notification';
  method: string;
  params: Params;
}
/** Whether a frame must name the version of JSON-RPC. */
type Version = 'required' | 'optional';
type Outcome = { result: unknown } | { error: RpcErrorBody };

/** One frame from the other side. `broken` has the error to answer with; without an id there is no answer. */
type Frame =
  | Request
  | Notification
  | { kind: 'response'; id: Id; outcome: Outcome }
  | { kind: 'broken'; id?: Id; error: RpcError };

export interface PeerHandler {
  /** The handler answers, now or later, with `answer` or `fail`. */
  request(request: Request): void;
  notification(notification: Notification): void;
  /** A frame that is not JSON-RPC. Without an id it was a notification, or its id is unknown. */
  broken(error: RpcError, id: Id | undefined): void;
}

/** One request of ours, perhaps sent several times. Any answer counts. */
interface Pending {
  key: string;
  ids: string[];
  answer: PromiseWithResolvers<unknown>;
  timer: ReturnType<typeof setTimeout> | undefined;
}

export interface CallOptions {
  /** While there is no answer, a request with the same key is the same request under another id. */
  key?: string;
  /** The prefix of its id. */
  prefix?: string;
  /** After this time without an answer, the request fails with `NoAnswer`. */
  ms?: number;
}

/**
 * One side of a JSON-RPC 2.0 connection over any transport: reads frames, keeps our open requests and writes answers. The caller must
 * handle errors that `write` throws.
 */
export class JsonRpcPeer {
  readonly #byId = new Map<string, Pending>();
  readonly #byKey = new Map<string, Pending>();
  #count = 0;
  #isClosed = false;

  constructor(
    readonly write: (frame: string) => void,
    readonly handler: PeerHandler,
    /** `optional` for a peer that leaves out `"jsonrpc": "2.0"`. */
    readonly version: Version = 'required',
  ) {}

  /** Takes one frame from the other side. */
  receive(bytes: string | Uint8Array): void {
    const frame = readFrame(bytes, this.version);
    switch (frame.kind) {
      case 'request':
        return this.handler.request(frame);
      case 'notification':
        return this.handler.notification(frame);
      case 'broken':
        return this.handler.broken(frame.error, frame.id);
      case 'response':
        return this.#answered(frame.id, frame.outcome);
    }
  }

  /** Sends a request. `answer` is the result; it throws if the other side refuses, goes away, or is late. */
  request(method: string, params: Params, options: CallOptions = {}): { id: string; answer: Promise<unknown> } {
    if (this.#isClosed) throw gone();
    this.#count += 1;
    const id = `${options.prefix ?? ''}${this.#count}`;
    const pending = this.#byKey.get(options.key ?? id) ?? this.#newPending(options.key ?? id, options.ms);
    pending.ids.push(id);
    this.#byId.set(id, pending);
    if (pending.ids.length > MOST_IDS) this.#byId.delete(pending.ids.shift() ?? '');
    this.#send({ id, method, params });
    return { id, answer: pending.answer.promise };
  }

  notify(method: string, params: object): void {
    if (!this.#isClosed) this.#send({ method, params });
  }

  /** Answers a request. False, and nothing is written, if the frame would be longer than `limit`. */
  answer(id: Id, result: unknown, limit = Infinity): boolean {
    const frame = JSON.stringify({ jsonrpc: '2.0', id, result });
    if (frame.length > limit) return false;
    this.write(frame);
    return true;
  }

  fail(id: Id, error: RpcErrorBody): void {
    this.#send({ id, error });
  }

  /** The other side is gone: every open request fails. */
  close(): void {
    this.#isClosed = true;
    for (const pending of this.#byKey.values()) this.#settle(pending, (answer) => answer.reject(gone()));
  }

  #send(frame: object): void {
    this.write(JSON.stringify({ jsonrpc: '2.0', ...frame }));
  }

  #newPending(key: string, ms: number | undefined): Pending {
    if (this.#byKey.size >= MOST_PENDING)
      throw new Refusal('busy', `the peer has left ${MOST_PENDING} requests unanswered; it gets more when it answers`);
    const pending: Pending = { key, ids: [], answer: Promise.withResolvers(), timer: undefined };
    // The caller may have stopped waiting: an unhandled rejection must not end the process.
    pending.answer.promise.catch(() => {});
    if (ms !== undefined)
      pending.timer = setTimeout(() => this.#settle(pending, (answer) => answer.reject(new NoAnswer())), ms);
    this.#byKey.set(key, pending);
    return pending;
  }

  /** Ignores an answer without an open request: it may be a second one. */
  #answered(id: Id, outcome: Outcome): void {
    const pending = this.#byId.get(String(id));
    if (!pending) return;
    this.#settle(pending, (answer) => {
      if ('error' in outcome) answer.reject(new RemoteError(outcome.error));
      else answer.resolve(outcome.result);
    });
  }

  #settle(pending: Pending, act: (answer: Pending['answer']) => void): void {
    clearTimeout(pending.timer);
    this.#byKey.delete(pending.key);
    for (const id of pending.ids) this.#byId.delete(id);
    act(pending.answer);
  }
}

/** A thrown error as the wire shows it; null if it is our bug. */
export function errorBody(error: unknown): RpcErrorBody | null {
  if (error instanceof RpcError) {
    const { code, message, data } = error;
    return { code, message, ...(data && { data }) };
  }
  if (error instanceof Refusal)
    return { code: REFUSALS[error.code].rpc, message: error.message, data: { refusal: error.code } };
  return null;
}

/** Reads one frame. Never throws. spec: host#frames */
export function readFrame(bytes: string | Uint8Array, version: Version = 'required'): Frame {
  let value: unknown;
  try {
    value = JSON.parse(typeof bytes === 'string' ? bytes : (textOf(bytes) ?? ''));
  } catch {
    // Not the parser's message: it may quote the text.
    return broken(null, RPC.parse, 'this frame is no JSON; send one JSON value per frame, as UTF-8');
  }
  if (Array.isArray(value)) return broken(null, RPC.invalid, 'batches are not taken; send each request as a frame');
  if (!isRecord(value)) return broken(null, RPC.invalid, 'a frame is a JSON object');
  return frameOf(version === 'optional' ? { jsonrpc: '2.0', ...value } : value);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function frameOf(value: Params): Frame {
  const { jsonrpc, method, params = {} } = value;
  const hasId = Object.hasOwn(value, 'id');
  const id = idOf(value['id']);
  if (hasId && id === undefined)
    return broken(null, RPC.invalid, `an id is a text of at most ${ID_LIMIT} characters, or a whole number`);
  const echo = id ?? null;
  if (jsonrpc !== '2.0') return broken(echo, RPC.invalid, 'a frame has "jsonrpc": "2.0"');
  if (method === undefined) return responseOf(value, hasId, echo);
  if (typeof method !== 'string' || method === '') return broken(echo, RPC.invalid, 'a method is a text');
  // A notification is never answered, even if it is invalid.
  const answerTo = hasId ? echo : undefined;
  // An error names the wrong field, and positional arguments have no names.
  if (Array.isArray(params)) return broken(answerTo, RPC.params, 'params is an object: give every field its name');
  if (!isRecord(params)) return broken(answerTo, RPC.invalid, 'params is an object');
  return hasId ? { kind: 'request', id: echo, method, params } : { kind: 'notification', method, params };
}

function responseOf(value: Params, hasId: boolean, id: Id): Frame {
  const { result, error } = value;
  // Some servers write both fields, one of them null.
  if (hasId && Object.hasOwn(value, 'result') && (result !== null || !isRecord(error)))
    return { kind: 'response', id, outcome: { result } };
  if (!hasId || typeof error !== 'object' || error === null)
    return broken(id, RPC.invalid, 'a frame is a request (method, id), a notification (method) or a response (id)');
  const { code, message, data } = error as Params;
  const body: RpcErrorBody = {
    code: typeof code === 'number' ? code : RPC.internal,
    message: typeof message === 'string' ? message.slice(0, 500) : 'no reason given',
    ...(typeof data === 'object' && data !== null && { data: data as Params }),
  };
  return { kind: 'response', id, outcome: { error: body } };
}

/** The id, or undefined if we cannot echo it exactly. */
function idOf(id: unknown): Id | undefined {
  if (id === null) return null;
  if (typeof id === 'string') return id.length <= ID_LIMIT ? id : undefined;
  return Number.isSafeInteger(id) ? (id as number) : undefined;
}

function broken(id: Id | undefined, code: number, message: string): Frame {
  return { kind: 'broken', ...(id !== undefined && { id }), error: new RpcError(code, message) };
}

function gone(): Refusal {
  return new Refusal('unreachable', 'the peer went away before it answered');
}
