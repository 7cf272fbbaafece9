import { Bind, ContextReset, Progress, Quieter, SURFACE, TOOLS, Turn } from '../../protocol/host.ts';
import type { PeerRole, ToolName } from '../../protocol/host.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { Parsed, Schema } from '../../protocol/schema.ts';
import { Signal } from '../../protocol/signal.ts';
import type { Wire } from '../../flow/host/wire.ts';
import type { Engine } from './engine.ts';
import { flatResult, fromFlat } from './flat.ts';
import { RPC, RpcError } from './frames.ts';
import type { Params } from './frames.ts';
import type { Terms } from './terms.ts';
import { isToolName, lacksFor, toolList } from './tools.ts';

/** Who calls, with what was agreed. */
export interface Caller {
  engine: Engine;
  wire: Wire;
  terms: Terms;
}

export interface Method {
  /** Who may call it; without it everybody. */
  role?: PeerRole;
  /** It has no answer of its own: sent with an id, it is answered with an empty object. */
  isNotification?: true;
  /** It touches no session and is answered at once. */
  isInstant?: true;
  /** It waits for nothing that was asked before: the engine puts it into the order that its source gives. */
  isFree?: true;
  run(caller: Caller, params: Params): unknown;
}

/** Everything that can be called after `initialize`. spec: host#methods */
const METHODS: Record<string, Method> = {
  ping: { isInstant: true, run: () => ({}) },
  'notifications/initialized': { isNotification: true, isInstant: true, run: () => {} },
  'tools/list': { role: 'harness', isInstant: true, run: ({ terms }) => toolList(terms.capabilities) },
  'tools/call': {
    role: 'harness',
    run(caller, { name, arguments: args = {}, sessionId }) {
      if (!isToolName(name)) throw badParams('name', `name one of ${Object.keys(TOOLS).join(', ')}`);
      return callTool(caller, name, sessionId, args, 'arguments');
    },
  },
  ...Object.fromEntries(
    Object.keys(TOOLS)
      .filter(isToolName)
      .map((name) => [name, direct(name)]),
  ),
  'session/bind': {
    role: 'harness',
    run: ({ engine, wire, terms }, params) =>
      engine.bind(wire, terms.capabilities, terms.version, parsed(Bind, params)),
  },
  'session/quieter': {
    role: 'harness',
    run: ({ engine, wire }, params) => engine.quieter(wire, parsed(Quieter, params)),
  },
  'notifications/turn': {
    role: 'harness',
    isNotification: true,
    run: ({ engine, wire }, params) => engine.turn(wire, parsed(Turn, params)),
  },
  'notifications/context_reset': {
    role: 'harness',
    isNotification: true,
    run: ({ engine, wire }, params) => engine.contextReset(wire, parsed(ContextReset, params).sessionId),
  },
  'notifications/progress': {
    role: 'harness',
    isNotification: true,
    run: ({ engine, wire }, params) => engine.progress(wire, parsed(Progress, params)),
  },
  'surface/bind': surface((caller, params) =>
    caller.engine.surface.bind(caller.wire, parsed(SURFACE['surface/bind'], params)),
  ),
  'surface/post': {
    role: 'surface',
    isFree: true,
    run: ({ engine, wire }, params) => engine.surface.post(wire, parsed(SURFACE['surface/post'], fromFlat(params))),
  },
  'surface/edit': surface((caller, params) =>
    caller.engine.surface.edit(caller.wire, parsed(SURFACE['surface/edit'], fromFlat(params))),
  ),
  'surface/delete': surface((caller, params) =>
    caller.engine.surface.delete(caller.wire, parsed(SURFACE['surface/delete'], params)),
  ),
  'surface/react': surface(react),
  'surface/typing': {
    role: 'surface',
    isNotification: true,
    run: ({ engine, wire }, params) => engine.surface.typing(wire, parsed(SURFACE['surface/typing'], params)),
  },
};

/** The method of that name, if this caller may use it. */
export function methodFor(name: string, role: PeerRole): Method {
  const method = Object.hasOwn(METHODS, name) ? METHODS[name] : undefined;
  if (!method) throw new RpcError(RPC.method, `there is no method "${shown(name)}"`, { method: shown(name) });
  if (method.role === undefined || method.role === role) return method;
  throw new Refusal('not_yours', `${name} is for a ${method.role}, and you are a ${role}; initialize says which`);
}

/** Which session it is for: what one session asks happens in order. Without one it is the whole connection's. */
export function laneOf(params: Params): string | undefined {
  return typeof params['sessionId'] === 'string' ? params['sessionId'] : undefined;
}

/** Parses, and names the field that is wrong. What the schema does not know is left out, attention and lineage among it. */
export function parsed<T>(schema: { safeParse(input: unknown): Parsed<T> }, input: unknown, at = ''): T {
  const outcome = schema.safeParse(input);
  if (outcome.success) return outcome.data;
  const field = [at, outcome.path].filter(Boolean).join('.') || 'params';
  throw badParams(field, outcome.why);
}

function badParams(field: string, why: string): RpcError {
  return new RpcError(RPC.params, `${field}: ${shown(why)}`, { field });
}

function direct(tool: ToolName): Method {
  return {
    role: 'harness',
    run: (caller, { sessionId, ...args }) => callTool(caller, tool, sessionId, args, ''),
  };
}

async function callTool(
  { engine, wire, terms }: Caller,
  tool: ToolName,
  sessionId: unknown,
  args: unknown,
  at: string,
): Promise<unknown> {
  const lacks = lacksFor(tool, terms.capabilities);
  if (lacks !== null)
    throw new RpcError(RPC.method, `${tool} was not agreed on; name ${lacks} at initialize`, { method: tool });
  if (sessionId !== undefined && typeof sessionId !== 'string') throw badParams('sessionId', 'give a text');
  const result = await engine.call(wire, sessionId, tool, parsed(TOOLS[tool] as Schema<never>, args, at));
  return terms.version === '2026-06-24' ? flatResult(result) : result;
}

function surface(run: Method['run']): Method {
  return { role: 'surface', run };
}

/** A sign becomes the signal that it stands for in this workspace; one that stands for nothing is kept as it is. */
function react({ engine, wire, terms }: Caller, params: Params): unknown {
  const reaction = parsed(SURFACE['surface/react'], params);
  if (reaction.signal !== undefined) parsed(Signal, reaction.signal, 'signal');
  else if (reaction.glyph === undefined) throw badParams('glyph', 'give the sign, or the signal');
  const signal = reaction.signal ?? terms.glyphs.signalOf(reaction.glyph ?? '');
  return engine.surface.react(wire, { ...reaction, ...(signal !== undefined && { signal }) });
}

/** What came from outside is told back short and on one line. */
function shown(text: string): string {
  return text.replace(/\p{Cc}/gu, '?').slice(0, 200);
}
