import * as texts from '../../core/mail/tool-texts.ts';
import { plainLine } from '../../core/gate.ts';
import { RULES } from './prompt.ts';
import { claim, unclaim } from '../../core/obligations/claim.ts';
import { defer, resolve } from '../../core/obligations/defer.ts';
import { listEvents, readThread } from '../../core/history/events.ts';
import type { EventView } from '../../core/history/events.ts';
import { react } from '../../core/obligations/react.ts';
import { say } from '../../core/mail/say.ts';
import { argumentsIn, messageIn, refusePerson, showing } from '../../core/mail/tool-call.ts';
import type { ToolCaller } from '../../core/mail/tool-call.ts';
import { TOOLS } from './shapes.ts';
import type { ToolArguments, ToolName } from './shapes.ts';
import type { MessageId } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { SIGNALS } from '../../core/signal.ts';
import { listedTool } from '../../wire/mcp.ts';
import type { Face, ToolRow } from '../../wire/mcp.ts';

/** The tools of C2A as MCP clients know them: not every client allows a dot in a name. `chat_who` is ours. spec: mcp#tools */
export type McpTool = 'chat_who' | (ToolName extends `chat.${infer Name}` ? `chat_${Name}` : never);

type Shape = Record<string, unknown>;

interface Tool extends ToolRow {
  /** Parses the arguments, calls one function of core, and returns the text for the model. */
  run(caller: ToolCaller, given: unknown): Promise<string>;
}

const text: Shape = { type: 'string' };
const count: Shape = { type: 'integer' };
const about = (description: string): Shape => ({ type: 'string', description });
// Some clients refuse an enum without a type.
const oneOf = (values: readonly string[]): Shape => ({ type: 'string', enum: values });

/** Every tool is idempotent: it reads, has a key, or sets a state that it may set again. None destroys what others have. */
const READS = { readOnlyHint: true, idempotentHint: true } as const;
const WRITES = { destructiveHint: false, idempotentHint: true } as const;

/**
 * The seven tools of the protocol, and `chat_who`. The list is in the context of every session, so it stays below 2,800 bytes. The
 * protocol's schemas check each field, and the answer to a wrong value says what to write instead.
 */
const CHAT_TOOLS: Record<McpTool, Tool> = {
  chat_list_events: {
    about: 'List chat events. stream: #channel; times: ISO.',
    takes: { stream: text, conversation: text, policy: text, since: text, until: text, cursor: text, limit: count },
    hints: READS,
    async run({ workspace, who, gather }, given) {
      const filter = parsed('chat.list_events', given);
      await gather(who, '');
      return eventList(who.name, await listEvents([who], { ...filter, now: workspace.now() }));
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
        headline,
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
      return texts.sent(sent, await showing(caller, sent), 'c2a');
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
    run: ({ workspace, who }) => texts.whoIsHere(workspace, who),
  },
};

/** The result of `tools/list`. */
export const TOOL_LIST = Object.entries(CHAT_TOOLS).map(([name, row]) => listedTool(name as McpTool, row));

/**
 * The C2A face: the tools of the protocol, by its names. `caller` is called for each tool call: if the agent has no mailbox yet, the model
 * reads that in the tool's answer.
 */
export function chatFace(version: string, caller: () => Promise<ToolCaller>): Face {
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

/** Replaces commands and host tools that a refusal names with the names of the tools here. */
function inTools(line: string): string {
  return line
    .replace(/`parley agents`/g, 'chat_who')
    .replace(/`parley (?:events|history)`/g, 'chat_list_events')
    .replace(/\bchat\.(?=[a-z_]+\b)/g, 'chat_');
}

function parsed<Name extends ToolName>(name: Name, given: unknown): ToolArguments<Name> {
  return argumentsIn<unknown>(TOOLS[name], given) as ToolArguments<Name>;
}

function eventOf(caller: ToolCaller, start: string): Promise<MessageId> {
  return messageIn(caller, start, { noun: 'event', list: 'chat_list_events' });
}

/** The tool that our texts name for reading the whole text. */
export const PULL_WITH = 'chat_read_thread' satisfies McpTool;

function eventList(me: string, listed: Awaited<ReturnType<typeof listEvents>>): string {
  const { length } = listed.events;
  if (length === 0) return 'no events';
  const first = `${length} ${length === 1 ? 'event' : 'events'}, newest first; whole text: ${PULL_WITH}`;
  return [first, ...texts.gists(me, listed, headline)].join('\n');
}

function headline(me: string, event: EventView): string {
  const { attention, disposition, proven } = event;
  const asks = [attention.policy, attention.directedness, attention.reason];
  return texts.facts(me, event, asks, disposition ?? proven);
}
