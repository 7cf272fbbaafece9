import { REFUSALS, Refusal } from '../../protocol/refusal.ts';
import { storageTrouble } from '../../storage/disk.ts';

/** JSON-RPC's own errors, and the one for what its caller took back. spec: host#errors */
export const RPC = {
  parse: -32700,
  invalid: -32600,
  method: -32601,
  params: -32602,
  internal: -32603,
  cancelled: -32800,
};

/** A frame that is longer is not read. spec: host#limits */
export const FRAME_LIMIT = 4 * 1024 * 1024;
/** An id is echoed: a long one would be a way to make us write. */
const ID_LIMIT = 256;

export type Id = string | number | null;
export type Params = Record<string, unknown>;

export interface RpcErrorBody {
  code: number;
  message: string;
  data?: Params;
}

/** A "no" that only JSON-RPC knows. */
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

export type Outcome = { result: unknown } | { error: RpcErrorBody };

/** One frame from the other side. `broken` carries what to answer; without an id nobody is to be answered. */
export type Frame =
  | { kind: 'request'; id: Id; method: string; params: Params }
  | { kind: 'notification'; method: string; params: Params }
  | { kind: 'response'; id: Id; outcome: Outcome }
  | { kind: 'broken'; id?: Id; error: RpcError };

const decoder = new TextDecoder('utf-8', { fatal: true });

/** Reads one frame, whatever it is: never throws. spec: host#frames */
export function readFrame(bytes: string | Uint8Array): Frame {
  let value: unknown;
  try {
    value = JSON.parse(typeof bytes === 'string' ? bytes : decoder.decode(bytes));
  } catch {
    // What a parser says can have a piece of the text in it.
    return broken(null, RPC.parse, 'this frame is no JSON; send one JSON value per frame, as UTF-8');
  }
  if (Array.isArray(value)) return broken(null, RPC.invalid, 'batches are not taken; send each request as a frame');
  if (typeof value !== 'object' || value === null) return broken(null, RPC.invalid, 'a frame is a JSON object');
  return frameOf(value as Params);
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
  // A notification is never answered, however wrong it is.
  const answerTo = hasId ? echo : undefined;
  if (typeof params !== 'object' || params === null) return broken(answerTo, RPC.invalid, 'params is an object');
  // Positions are no names: what is wrong could not be named.
  if (Array.isArray(params)) return broken(answerTo, RPC.params, 'params is an object: give every field its name');
  if (!hasId) return { kind: 'notification', method, params: params as Params };
  return { kind: 'request', id: echo, method, params: params as Params };
}

function responseOf(value: Params, hasId: boolean, id: Id): Frame {
  const { error } = value;
  if (hasId && Object.hasOwn(value, 'result')) return { kind: 'response', id, outcome: { result: value['result'] } };
  if (hasId && typeof error === 'object' && error !== null) {
    const { code, message, data } = error as Params;
    const isTold = typeof data === 'object' && data !== null;
    const told: RpcErrorBody = {
      code: typeof code === 'number' ? code : RPC.internal,
      message: typeof message === 'string' ? message.slice(0, 500) : 'no reason given',
      ...(isTold && { data: data as Params }),
    };
    return { kind: 'response', id, outcome: { error: told } };
  }
  return broken(id, RPC.invalid, 'a frame is a request (method, id), a notification (method) or a response (id)');
}

/** Undefined for what could not be echoed exactly. */
function idOf(id: unknown): Id | undefined {
  if (id === null) return null;
  if (typeof id === 'string') return id.length <= ID_LIMIT ? id : undefined;
  return Number.isSafeInteger(id) ? (id as number) : undefined;
}

function broken(id: Id | undefined, code: number, message: string): Frame {
  return { kind: 'broken', ...(id !== undefined && { id }), error: new RpcError(code, message) };
}

/** How a "no" is told: a refusal has its number in the table; anything else that is no `RpcError` is our own fault. */
export function errorOf(thrown: unknown): RpcErrorBody {
  const error = storageTrouble(thrown);
  if (error instanceof RpcError) {
    const { code, message, data } = error;
    return { code, message, ...(data && { data }) };
  }
  if (error instanceof Refusal)
    return { code: REFUSALS[error.code].rpc, message: error.message, data: { refusal: error.code } };
  return { code: RPC.internal, message: "internal error; see the host's log" };
}

/** True if nobody outside has earned this error. */
export function isOurFault(error: unknown): boolean {
  return !(error instanceof RpcError) && !(error instanceof Refusal);
}
