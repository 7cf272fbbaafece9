import * as texts from './mcp-texts.ts';
import { plainLine } from '../../core/gate.ts';
import { RULES } from './prompt.ts';
import { claim, unclaim } from '../../core/obligations/claim.ts';
import { defer, resolve } from '../../core/obligations/defer.ts';
import type { Workspace, Who } from '../../core/mail/workspace.ts';
import { listEvents, readThread } from '../../core/history/events.ts';
import { react } from '../../core/obligations/react.ts';
import { say } from './say.ts';
import { shownSoon } from '../../core/mail/shown.ts';
import { visible } from '../../core/history/sight.ts';
import { TOOLS } from './shapes.ts';
import type { ToolArguments, ToolName } from './shapes.ts';
import { isMessageId } from '../../core/names.ts';
import type { MessageId } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { SIGNALS } from '../../core/signal.ts';
import { listedTool } from '../../wire/mcp.ts';
import type { Face, ToolRow } from '../../wire/mcp.ts';

/** The tools as MCP clients know them: not every client allows a dot in a name. `chat_who` is ours. spec: mcp#tools */
export type McpTool = 'chat_who' | (ToolName extends `chat.${infer Name}` ? `chat_${Name}` : never);

/** Who acts in one call, and on what. */
interface Caller {
  workspace: Workspace;
  who: Who;
  /** Fetches what waits for this agent elsewhere or has no row yet, so that it can be found. */
  gather: (who: Who, prefix: string) => Promise<void>;
}

type Shape = Record<string, unknown>;

interface Tool extends ToolRow {
  /** Reads the arguments, calls one function of the flow, and returns what a model reads. */
  run(caller: Caller, given: unknown): Promise<string>;
}

const text: Shape = { type: 'string' };
const count: Shape = { type: 'integer' };
const about = (description: string): Shape => ({ type: 'string', description });
// Some clients refuse a list of values without their type.
const oneOf = (values: readonly string[]): Shape => ({ type: 'string', enum: values });

/** The same call again changes nothing: a keyed send, a reaction, a claim, an end. No call destroys what others have. */
const READS = { readOnlyHint: true, idempotentHint: true } as const;
const WRITES = { destructiveHint: false, idempotentHint: true } as const;

/** A surface takes what waits within a second; nobody waits for one that is away. */
const PATIENCE = { takenMs: 2000, shownMs: 5000 };

/**
 * The seven tools of the protocol, and who is here. Their list stands in the context of every session, so it stays below 2,800 bytes:
 * the protocol's own schemas check what a field takes, and a wrong one is answered with what to write instead.
 */
const CHAT_TOOLS: Record<McpTool, Tool> = {
  chat_list_events: {
    about: 'List chat events. stream: #channel; times: ISO.',
    takes: { stream: text, conversation: text, policy: text, since: text, until: text, cursor: text, limit: count },
    hints: READS,
    async run({ workspace, who, gather }, given) {
      const filter = parsed('chat.list_events', given);
      await gather(who, '');
      return texts.eventList(who.name, await listEvents([who], { ...filter, now: workspace.now() }));
    },
  },
  chat_read_thread: {
    about: 'Read the thread of an event, or a conversation.',
    takes: { eventId: text, conversation: text, cursor: text, limit: count },
    hints: READS,
    async run(caller, given) {
      const { workspace, who, gather } = caller;
      const { eventId, conversation, ...page } = parsed('chat.read_thread', given);
      if (eventId === undefined && conversation === undefined)
        throw new Refusal('invalid_request', 'give eventId or conversation; see chat_list_events for both');
      await gather(who, eventId ?? '');
      const event = eventId === undefined ? undefined : await eventOf(caller, eventId);
      return texts.thread(
        who.name,
        await readThread([who], { event, conversation }, { ...page, now: workspace.now() }),
      );
    },
  },
  chat_send_message: {
    about: 'Send a chat message.',
    takes: {
      target: about('@name or #channel'),
      text,
      inReplyTo: text,
      idempotencyKey: about('same on retry'),
      visibility: oneOf(['dm', 'thread', 'channel']),
      directedness: oneOf(['to_me', 'to_my_role', 'ambient']),
      intent: oneOf(['question', 'assignment', 'approval', 'blocker', 'fyi', 'status']),
      priority: about('urgent'),
    },
    needs: ['target', 'text', 'idempotencyKey', 'visibility', 'directedness'],
    hints: WRITES,
    async run(caller, given) {
      const message = parsed('chat.send_message', given);
      const { inReplyTo, target } = message;
      const event = inReplyTo === undefined ? {} : { inReplyTo: await eventOf(caller, inReplyTo) };
      const [, thread] = /^thread:(.+)$/.exec(target) ?? [];
      const to = thread === undefined ? {} : { target: `thread:${await eventOf(caller, thread)}` };
      const sent = await say(caller.workspace, caller.who, { ...message, ...event, ...to });
      return texts.sent(sent, await shownSoon(sent, caller.workspace.now(), PATIENCE));
    },
  },
  chat_react: {
    about: 'Answer an event by a signal.',
    takes: { inReplyTo: text, signal: oneOf(Object.keys(SIGNALS)), eta: text },
    needs: ['inReplyTo', 'signal'],
    hints: WRITES,
    async run(caller, given) {
      const { inReplyTo, ...reaction } = parsed('chat.react', given);
      const id = await eventOf(caller, inReplyTo);
      const reacted = await react(caller.workspace, caller.who, id, { ...reaction, ifUnknown: 'refuse' });
      return texts.reacted(id, reaction.signal, reacted);
    },
  },
  chat_claim: {
    about: 'Claim an event before you answer it.',
    takes: { eventId: text, release: { type: 'boolean' } },
    needs: ['eventId'],
    hints: WRITES,
    async run(caller, given) {
      const { eventId, release } = parsed('chat.claim', given);
      const id = await eventOf(caller, eventId);
      if (release) return texts.released(id, await unclaim(caller.workspace, caller.who, id));
      return texts.claimed(id, await claim(caller.workspace, caller.who, id));
    },
  },
  chat_defer: {
    about: 'Put off an event you must answer.',
    takes: { eventId: text, reason: text, until: text },
    needs: ['eventId', 'reason'],
    hints: WRITES,
    async run(caller, given) {
      const { eventId, ...why } = parsed('chat.defer', given);
      return texts.deferred(await defer(caller.workspace, caller.who, await eventOf(caller, eventId), why));
    },
  },
  chat_resolve: {
    about: 'End what you owe in an event or thread.',
    takes: { eventId: text, note: text },
    needs: ['eventId'],
    hints: WRITES,
    async run(caller, given) {
      const { eventId, note } = parsed('chat.resolve', given);
      const id = await eventOf(caller, eventId);
      return texts.resolved(id, await resolve(caller.workspace, caller.who, id, note));
    },
  },
  chat_who: {
    about: 'Who you are, and who is here.',
    takes: {},
    hints: { readOnlyHint: true },
    async run({ workspace, who }) {
      const here = await Promise.all(
        workspace.homes.map(async (home) =>
          (await home.directory.list()).map((record) => ({ home: home.label, record })),
        ),
      );
      return texts.whoIsHere(who, here.flat(), workspace.now());
    },
  },
};

/** What `tools/list` answers. */
export const TOOL_LIST = Object.entries(CHAT_TOOLS).map(([name, row]) => listedTool(name as McpTool, row));

/**
 * Parley's own face. `caller` is asked at each call: the agent may not have a mailbox yet, and a tool's answer is where a model
 * reads that.
 */
export function chatFace(version: string, caller: () => Promise<Caller>): Face {
  return {
    serverInfo: { name: 'parley', version },
    instructions: RULES,
    tools: TOOL_LIST,
    async call(name, given, answer) {
      const current = await caller();
      await refusePerson(current.who);
      answer(await CHAT_TOOLS[name as McpTool].run(current, given));
    },
    refusal: (line) => plainLine(inTools(line)),
  };
}

/** A refusal may name a command of ours; a model has the tool for it. */
function inTools(line: string): string {
  return line.replace(/`parley agents`/g, 'chat_who').replace(/`parley (?:events|history)`/g, 'chat_list_events');
}

async function refusePerson({ name, home }: Who): Promise<void> {
  if ((await home.directory.get(name))?.parley?.kind !== 'human') return;
  throw new Refusal(
    'not_yours',
    `@${name} is a person, and tools are for agents; run \`parley init <name>\` and use that name`,
  );
}

function parsed<Name extends ToolName>(name: Name, given: unknown): ToolArguments<Name> {
  const read = TOOLS[name].safeParse(given ?? {});
  if (read.success) return read.data as ToolArguments<Name>;
  const isMissing = typeof given === 'object' && given !== null && read.path !== '' && !(read.path in given);
  throw new Refusal(
    'invalid_request',
    isMissing ? `${read.path} is missing` : `${read.path || 'arguments'}: ${read.why}`,
  );
}

/** An event by its id or the beginning of it, as our texts show it. Only what this agent may see counts. */
async function eventOf({ who, gather }: Caller, start: string): Promise<MessageId> {
  await gather(who, start);
  const { journal, remote } = who.home;
  const ids = isMessageId(start) ? [...(await journal.idsLike(start)), ...((await remote?.sentAs(start)) ?? [])] : [];
  const found: MessageId[] = [];
  for (const id of new Set(ids)) if (await isVisible(who, id)) found.push(id);
  const exact = found.find((id) => id === start);
  const [only, ...others] = exact ? [exact] : found;
  if (only && others.length === 0) return only;
  const shown = start.replace(/[^\w.-]/g, '?').slice(0, 40);
  if (only) throw new Refusal('ambiguous', `several events begin with ${shown}; give more of the id`);
  throw new Refusal('not_found', `no event ${shown} is here for you; see chat_list_events`);
}

async function isVisible(who: Who, id: MessageId): Promise<boolean> {
  try {
    await visible([who], id);
    return true;
  } catch (error) {
    if (error instanceof Refusal && error.code === 'not_found') return false;
    throw error;
  }
}
