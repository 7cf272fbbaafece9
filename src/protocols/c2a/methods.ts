import type { HostPeer } from './context.ts';
import { Bind, ContextReset, OpenSet, Progress, Quieter, SURFACE, TOOLS, Turn } from './shapes.ts';
import type { Capabilities, PeerRole, ProtocolVersion, ToolArguments, ToolName } from './shapes.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Described, Parsed, Schema } from '../../core/schema.ts';
import { Signal } from '../../core/signal.ts';
import { RPC, RpcError } from '../../wire/jsonrpc.ts';
import type { Params } from '../../wire/jsonrpc.ts';
import type { Agreement } from './agreement.ts';
import { flatResult, fromFlat, fromObligation, hasFlatEvents, partyName } from './flat.ts';

type SurfaceParams<M extends keyof typeof SURFACE> = Described<(typeof SURFACE)[M]>;

/** What the server calls; host.ts implements it. Peers are compared by object identity. */
export interface Engine {
  bind(
    wire: HostPeer,
    capabilities: Capabilities,
    version: ProtocolVersion,
    request: Bind,
  ): Promise<{ sessionId: string; token: string; warnings: string[] }>;
  /** The connection ended; another one can continue its sessions. */
  gone(wire: HostPeer): void;
  turn(wire: HostPeer, turn: Turn): Promise<void>;
  contextReset(wire: HostPeer, sessionId: string): void | Promise<void>;
  call<Name extends ToolName>(
    wire: HostPeer,
    sessionId: string | undefined,
    tool: Name,
    args: ToolArguments<Name>,
  ): Promise<unknown>;
  quieter(wire: HostPeer, request: Quieter): Promise<unknown>;
  /** What its agents owe, or what they wait for. */
  openSet(wire: HostPeer, which: 'owed' | 'blocking', request: OpenSet): Promise<unknown>;
  progress(wire: HostPeer, progress: Progress): void | Promise<void>;
  /** The calls of a surface. */
  surface: {
    bind(wire: HostPeer, params: SurfaceParams<'surface/bind'>): unknown;
    post(wire: HostPeer, params: SurfaceParams<'surface/post'>): unknown;
    edit(wire: HostPeer, params: SurfaceParams<'surface/edit'>): unknown;
    delete(wire: HostPeer, params: SurfaceParams<'surface/delete'>): unknown;
    react(wire: HostPeer, params: SurfaceParams<'surface/react'>): unknown;
    typing(wire: HostPeer, params: SurfaceParams<'surface/typing'>): unknown;
  };
}

/** The connection that calls, and its agreement. */
export interface Caller {
  engine: Engine;
  wire: HostPeer;
  agreement: Agreement;
}

export interface Method {
  /** The role that may call it. Without a role, every peer may. */
  role?: PeerRole;
  /** It has no result. If it is sent with an id, the answer is an empty object. */
  isNotification?: true;
  /** `instant`: touches no session and is answered at once. `free`: does not wait for earlier requests; the engine orders it. */
  order?: 'instant' | 'free';
  run(caller: Caller, params: Params): unknown;
}

interface Parser<T> {
  safeParse(input: unknown): Parsed<T>;
}

/** A method of one role, whose params have this schema. */
function method<T>(role: PeerRole, schema: Parser<T>, run: (caller: Caller, params: T) => unknown): Method {
  return { role, run: (caller, params) => run(caller, parsed(schema, params)) };
}

/** A method that also takes the flat shape. */
function flat(of: Method): Method {
  return { ...of, run: (caller, params) => of.run(caller, fromFlat(params)) };
}

const notification = (of: Method): Method => ({ ...of, isNotification: true });

/** Everything that can be called after `initialize`. spec: host#methods */
const METHODS: Record<string, Method> = {
  ping: { order: 'instant', run: () => ({}) },
  'notifications/initialized': { isNotification: true, order: 'instant', run: () => {} },
  'tools/list': { role: 'harness', order: 'instant', run: ({ agreement }) => toolList(agreement.capabilities) },
  'tools/call': {
    role: 'harness',
    run(caller, { name, arguments: args = {}, sessionId }) {
      if (!isToolName(name)) throw badParams('name', `name one of ${Object.keys(TOOLS).join(', ')}`);
      return callTool(caller, name, sessionId, args, 'arguments');
    },
  },
  ...Object.fromEntries(
    toolNames().map((name): [string, Method] => [
      name,
      { role: 'harness', run: (caller, { sessionId, ...args }) => callTool(caller, name, sessionId, args, '') },
    ]),
  ),
  'session/bind': method('harness', Bind, ({ engine, wire, agreement }, request) =>
    engine.bind(wire, agreement.capabilities, agreement.version, request),
  ),
  'session/quieter': method('harness', Quieter, ({ engine, wire }, request) => engine.quieter(wire, request)),
  'session/owed': method('harness', OpenSet, ({ engine, wire }, request) => engine.openSet(wire, 'owed', request)),
  'session/blocking': method('harness', OpenSet, ({ engine, wire }, request) =>
    engine.openSet(wire, 'blocking', request),
  ),
  'notifications/turn': notification(method('harness', Turn, ({ engine, wire }, turn) => engine.turn(wire, turn))),
  'notifications/context_reset': notification(
    method('harness', ContextReset, ({ engine, wire }, { sessionId }) => engine.contextReset(wire, sessionId)),
  ),
  'notifications/progress': notification(
    method('harness', Progress, ({ engine, wire }, progress) => engine.progress(wire, progress)),
  ),
  'surface/bind': method('surface', SURFACE['surface/bind'], ({ engine, wire }, params) =>
    engine.surface.bind(wire, params),
  ),
  'surface/post': {
    ...flat(method('surface', SURFACE['surface/post'], ({ engine, wire }, post) => engine.surface.post(wire, post))),
    order: 'free',
  },
  'surface/edit': flat(
    method('surface', SURFACE['surface/edit'], ({ engine, wire }, edit) => engine.surface.edit(wire, edit)),
  ),
  'surface/delete': method('surface', SURFACE['surface/delete'], ({ engine, wire }, params) =>
    engine.surface.delete(wire, params),
  ),
  'surface/react': flat(method('surface', SURFACE['surface/react'], react)),
  'surface/typing': notification(
    method('surface', SURFACE['surface/typing'], ({ engine, wire }, typing) => engine.surface.typing(wire, typing)),
  ),
};

/** The method of that name, if this caller may use it. */
export function methodFor(name: string, role: PeerRole): Method {
  const method = Object.hasOwn(METHODS, name) ? METHODS[name] : undefined;
  if (!method) throw new RpcError(RPC.method, `there is no method "${shown(name)}"`, { method: shown(name) });
  if (method.role === undefined || method.role === role) return method;
  throw new Refusal('not_yours', `${name} is for a ${method.role}, and you are a ${role}; initialize sets the role`);
}

/** Parses `input`; an error names the wrong field. Drops unknown fields, such as a sender's attention and lineage. */
export function parsed<T>(schema: Parser<T>, input: unknown, at = ''): T {
  const outcome = schema.safeParse(input);
  if (outcome.success) return outcome.data;
  const field = [at, outcome.path].filter(Boolean).join('.') || 'params';
  throw badParams(field, outcome.why);
}

function badParams(field: string, why: string): RpcError {
  return new RpcError(RPC.params, `${field}: ${shown(why)}`, { field });
}

/** Replaces an emoji by the signal that it means in this workspace. An emoji without a meaning is kept. */
function react({ engine, wire, agreement }: Caller, reaction: SurfaceParams<'surface/react'>): unknown {
  if (reaction.signal !== undefined) parsed(Signal, reaction.signal, 'signal');
  else if (reaction.glyph === undefined) throw badParams('glyph', 'give the emoji, or the signal');
  const signal = reaction.signal ?? agreement.emoji.signalOf(reaction.glyph ?? '');
  return engine.surface.react(wire, { ...reaction, ...(signal !== undefined && { signal }) });
}

/** Text from outside, shortened and on one line. */
function shown(text: string): string {
  return text.replace(/\p{Cc}/gu, '?').slice(0, 200);
}

interface Tool {
  about: string;
  /** The capability that the peer must have named at `initialize` to use it. */
  needs: keyof Capabilities['chatTools'];
  readOnly?: true;
}

/** All seven are idempotent: three read or have a key, and four set a state again. spec: host#tools */
const ABOUT: Record<ToolName, Tool> = {
  'chat.list_events': {
    about: 'List chat events available to this session, filtered by stream, conversation, policy, or time.',
    needs: 'readThread',
    readOnly: true,
  },
  'chat.read_thread': { about: 'Read a thread or conversation window.', needs: 'readThread', readOnly: true },
  'chat.send_message': { about: 'Send an idempotent chat message.', needs: 'sendMessage' },
  'chat.react': { about: 'Send a typed reaction signal as a zero-turn disposition.', needs: 'react' },
  'chat.claim': { about: 'Claim responsibility for responding to a channel event or thread.', needs: 'claim' },
  'chat.defer': { about: 'Record that a must-respond event is deferred with a reason.', needs: 'defer' },
  'chat.resolve': { about: 'Mark an event, thread, or assignment resolved.', needs: 'resolve' },
};

function isToolName(name: unknown): name is ToolName {
  return typeof name === 'string' && Object.hasOwn(TOOLS, name);
}

function toolNames(): ToolName[] {
  return Object.keys(TOOLS).filter(isToolName);
}

async function callTool(
  { engine, wire, agreement }: Caller,
  tool: ToolName,
  sessionId: unknown,
  args: unknown,
  at: string,
): Promise<unknown> {
  const { needs } = ABOUT[tool];
  if (!agreement.capabilities.chatTools[needs])
    throw new RpcError(RPC.method, `${tool} was not agreed on; name chatTools.${needs} at initialize`, {
      method: tool,
    });
  if (sessionId !== undefined && typeof sessionId !== 'string') throw badParams('sessionId', 'give a text');
  const result = await engine.call(wire, sessionId, tool, parsed(TOOLS[tool] as Schema<never>, fromNewer(args), at));
  return hasFlatEvents(agreement.version) ? flatResult(result, agreement.version) : result;
}

/** The arguments of a tool may name parties as the draft of 2026-08-11 does. */
function fromNewer(args: unknown): unknown {
  if (typeof args !== 'object' || args === null) return args;
  const { obligation, recipient } = args as Record<string, unknown>;
  return {
    ...args,
    ...(obligation !== undefined && { obligation: fromObligation(obligation) }),
    ...(recipient !== undefined && { recipient: partyName(recipient) }),
  };
}

/** The result of `tools/list`: the tools that both sides have. */
function toolList({ chatTools }: Capabilities): { tools: object[] } {
  return {
    tools: toolNames()
      .filter((name) => chatTools[ABOUT[name].needs])
      .map((name) => ({
        name,
        description: ABOUT[name].about,
        inputSchema: jsonSchema(TOOLS[name]),
        annotations: { readOnlyHint: ABOUT[name].readOnly ?? false, idempotentHint: true, destructiveHint: false },
      })),
  };
}

/** The part of a schema's internals that a description needs. */
interface Inner {
  type: string;
  entries?: Record<string, Inner>;
  wrapped?: Inner;
  item?: Inner;
  options?: readonly unknown[];
  default?: unknown;
}

/** A schema as JSON Schema, made from the schema itself, so that the two cannot differ. spec: host#tools */
export function jsonSchema(schema: Schema<never> | { inner: unknown }): Record<string, unknown> {
  return described(schema.inner as Inner);
}

function described(inner: Inner): Record<string, unknown> {
  const { type, entries = {}, wrapped, item, options } = inner;
  switch (type) {
    case 'object':
      return {
        type: 'object',
        properties: Object.fromEntries(Object.entries(entries).map(([name, one]) => [name, described(one)])),
        required: Object.entries(entries).flatMap(([name, one]) => (one.type === 'optional' ? [] : [name])),
      };
    case 'optional':
      return {
        ...(wrapped && described(wrapped)),
        ...(typeof inner.default !== 'object' && inner.default !== undefined && { default: inner.default }),
      };
    case 'array':
      return { type: 'array', ...(item && { items: described(item) }) };
    case 'picklist':
      return { type: 'string', enum: options };
    default:
      return { type };
  }
}
