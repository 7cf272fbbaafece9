import { claim, unclaim } from '../../flow/claim.ts';
import { defer } from '../../flow/defer.ts';
import type { Workspace, Who } from '../../flow/workspace.ts';
import { listEvents, readThread } from '../../flow/events.ts';
import { react } from '../../flow/react.ts';
import { resolve } from '../../flow/resolve.ts';
import { say } from '../../flow/say.ts';
import { shownSoon } from '../../flow/shown.ts';
import { visible } from '../../flow/sight.ts';
import { TOOLS } from '../../protocol/host.ts';
import type { ToolArguments, ToolName } from '../../protocol/host.ts';
import { isMessageId } from '../../protocol/names.ts';
import type { MessageId } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import * as texts from './texts.ts';
import type { McpTool } from './tools.ts';

/** Who acts in one call, and on what. */
export interface Caller {
  workspace: Workspace;
  who: Who;
  /** Fetches what waits for this agent elsewhere or has no row yet, so that it can be found. */
  gather: (who: Who, prefix: string) => Promise<void>;
}

/** A surface takes up what waits within a second; one that has not is away, and nobody waits for it. */
const PATIENCE = { takenMs: 2000, shownMs: 5000 };

type Call = (caller: Caller, given: unknown) => Promise<string>;

/** What each tool does: read the arguments, call one verb of the flow, say what came of it in a few words. */
const CALLS: Record<McpTool, Call> = {
  chat_list_events: async ({ workspace, who, gather }, given) => {
    const filter = parsed('chat.list_events', given);
    await gather(who, '');
    return texts.eventList(who.name, await listEvents([who], { ...filter, now: workspace.now() }));
  },
  chat_read_thread: async (caller, given) => {
    const { workspace, who, gather } = caller;
    const { eventId, conversation, ...page } = parsed('chat.read_thread', given);
    if (eventId === undefined && conversation === undefined)
      throw new Refusal('invalid_request', 'give eventId or conversation; see chat_list_events for both');
    await gather(who, eventId ?? '');
    const event = eventId === undefined ? undefined : await eventOf(caller, eventId);
    return texts.thread(who.name, await readThread([who], { event, conversation }, { ...page, now: workspace.now() }));
  },
  chat_send_message: async (caller, given) => {
    const message = parsed('chat.send_message', given);
    const { inReplyTo, target } = message;
    const event = inReplyTo === undefined ? {} : { inReplyTo: await eventOf(caller, inReplyTo) };
    const [, thread] = /^thread:(.+)$/.exec(target) ?? [];
    const to = thread === undefined ? {} : { target: `thread:${await eventOf(caller, thread)}` };
    const sent = await say(caller.workspace, caller.who, { ...message, ...event, ...to });
    return texts.sent(sent, await shownSoon(sent, caller.workspace.now(), PATIENCE));
  },
  chat_react: async (caller, given) => {
    const { inReplyTo, ...reaction } = parsed('chat.react', given);
    const id = await eventOf(caller, inReplyTo);
    return texts.reacted(
      id,
      reaction.signal,
      await react(caller.workspace, caller.who, id, { ...reaction, ifUnknown: 'refuse' }),
    );
  },
  chat_claim: async (caller, given) => {
    const { eventId, release } = parsed('chat.claim', given);
    const id = await eventOf(caller, eventId);
    if (release) return texts.released(id, await unclaim(caller.workspace, caller.who, id));
    return texts.claimed(id, await claim(caller.workspace, caller.who, id));
  },
  chat_defer: async (caller, given) => {
    const { eventId, ...why } = parsed('chat.defer', given);
    const id = await eventOf(caller, eventId);
    return texts.deferred(await defer(caller.workspace, caller.who, id, why));
  },
  chat_resolve: async (caller, given) => {
    const { eventId, note } = parsed('chat.resolve', given);
    const id = await eventOf(caller, eventId);
    return texts.resolved(id, await resolve(caller.workspace, caller.who, id, note));
  },
  chat_who: async ({ workspace, who }) => {
    const here = await Promise.all(
      workspace.homes.map(async (home) =>
        (await home.directory.list()).map((record) => ({ home: home.label, record })),
      ),
    );
    return texts.whoIsHere(who, here.flat(), workspace.now());
  },
};

/** Calls a tool as an agent. What it says goes before a model. */
export async function call(caller: Caller, tool: McpTool, given: unknown): Promise<string> {
  const { name, home } = caller.who;
  if ((await home.directory.get(name))?.parley?.kind === 'human') {
    throw new Refusal(
      'not_yours',
      `@${name} is a person, and tools are for agents; run \`parley init <name>\` and use that name`,
    );
  }
  return CALLS[tool](caller, given);
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

/** An event by its id or the beginning of it, as texts of ours show it. Only what this agent may see is looked at. */
async function eventOf(caller: Caller, text: string): Promise<MessageId> {
  const { who, gather } = caller;
  await gather(who, text);
  const found: MessageId[] = [];
  const { ledger, remote } = who.home;
  const ids = isMessageId(text) ? [...(await ledger.idsLike(text)), ...((await remote?.sentAs(text)) ?? [])] : [];
  for (const id of new Set(ids)) {
    if (await isVisible(who, id)) found.push(id);
  }
  const exact = found.find((id) => id === text);
  const [only, ...others] = exact ? [exact] : found;
  if (only && others.length === 0) return only;
  const shown = text.replace(/[^\w.-]/g, '?').slice(0, 40);
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
