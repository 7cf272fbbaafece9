import { masked } from '../../attention/secrets.ts';
import type { ToolArguments, ToolName } from '../../protocol/host.ts';
import { isMessageId } from '../../protocol/names.ts';
import type { MessageId } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { claim, unclaim } from '../claim.ts';
import { defer } from '../defer.ts';
import type { Who } from '../workspace.ts';
import { listEvents, readThread } from '../events.ts';
import type { EventView } from '../events.ts';
import { heldLines } from '../held.ts';
import { react } from '../react.ts';
import { resolve } from '../resolve.ts';
import type { Runner } from './runner.ts';
import { shownAt, speak } from './speak.ts';

type Tool<Name extends ToolName> = (runner: Runner, args: ToolArguments<Name>) => Promise<unknown>;

/** The seven tools, each one call of the flow. What they answer is short, and masked. spec: host#tools */
export const TOOL_CALLS: { [Name in ToolName]: Tool<Name> } = {
  async 'chat.list_events'({ session }, args) {
    const { events, cursor } = await listEvents(session.whos, { ...args, now: session.house.deps.now() });
    return { events: events.map(viewed), cursor };
  },

  async 'chat.read_thread'({ session }, { eventId, conversation, cursor, limit }) {
    if (eventId === undefined && conversation === undefined) {
      throw new Refusal('invalid_request', 'name an eventId or a conversation');
    }
    const page = { cursor, limit, now: session.house.deps.now() };
    const read = await readThread(session.whos, { event: eventId, conversation }, page);
    return { messages: read.messages.map(viewed), earlier: read.earlier, cursor: read.cursor };
  },

  async 'chat.send_message'(runner, args) {
    const { session } = runner;
    const who = await actorFor(runner, args.inReplyTo);
    await session.sends.turn('messages');
    const sent = await speak(session.house, who, { ...args, target: targetOf(args.target, who) });
    const about = sent.message.thread;
    // Its last words are not taken as a reply too.
    if (isMessageId(about)) session.turn?.said.add(about);
    session.house.stored(sent.copies);
    try {
      const shown = await shownAt(session.house, sent);
      const held = heldLines(sent.copies, 'tool');
      return {
        eventId: sent.message.id,
        first: sent.first,
        recipients: sent.copies.map(({ mailbox }) => mailbox),
        ...(held.length > 0 && { held }),
        ...shown,
      };
    } finally {
      // Shown or refused, the event that it answers has its end.
      if (isMessageId(about)) await session.recheck(who, about);
    }
  },

  async 'chat.react'(runner, { inReplyTo, signal, eta, recipient }) {
    const { session } = runner;
    const id = idOf(inReplyTo);
    const who = await actorFor(runner, id);
    await session.sends.turn('reactions');
    const reaction = { signal, eta, recipient, ifUnknown: 'refuse' as const };
    const { disposition, final, sent } = await react(session.house.deps.workspace, who, id, reaction);
    await session.recheck(who, id);
    session.house.stored(sent?.copies ?? []);
    return { disposition, final, ...(sent && { reactionId: sent.message.id }) };
  },

  async 'chat.claim'(runner, { eventId, release }) {
    const { session } = runner;
    const id = idOf(eventId);
    const who = await actorFor(runner, id);
    if (release) return { released: await unclaim(session.house.deps.workspace, who, id) };
    const { until } = await claim(session.house.deps.workspace, who, id);
    runner.reveal(who, id);
    return { claimed: true, until: new Date(until).toISOString() };
  },

  async 'chat.defer'(runner, { eventId, reason, until }) {
    const id = idOf(eventId);
    const who = await actorFor(runner, id);
    const duty = await defer(runner.session.house.deps.workspace, who, id, { reason, until });
    return { disposition: 'deferred', ...(duty.due !== null && { until: new Date(duty.due).toISOString() }) };
  },

  async 'chat.resolve'(runner, { eventId, note }) {
    const { session } = runner;
    const id = idOf(eventId);
    const who = await actorFor(runner, id);
    const resolved = await resolve(session.house.deps.workspace, who, id, note);
    for (const one of resolved) await session.recheck(who, one);
    session.house.stored();
    return { resolved };
  },
};

/** Which of a session's mailboxes acts: the one that has the event, else the first. */
async function actorFor({ session }: Runner, id: string | undefined): Promise<Who> {
  const [first] = session.whos;
  if (!first) throw new Refusal('no_identity', 'this session is bound to no mailbox; bind it to one that exists');
  if (session.whos.length === 1 || !isMessageId(id)) return first;
  for (const who of session.whos) if (await who.home.ledger.copy(who.name, id)) return who;
  return first;
}

/** As the header of an event writes it, and as people write it. */
function targetOf(target: string, who: Who): string {
  const [, kind, rest = ''] = /^(dm|channel|thread|system|tool):(.*)$/s.exec(target) ?? [];
  if (kind === undefined) return target;
  if (kind === 'thread' && isMessageId(rest)) return target;
  if (rest.startsWith('#') || rest.startsWith('@')) return rest;
  const names = rest.replace(/^(?:dm|system):/, '').split(',');
  return `@${names.find((name) => name !== who.name) ?? who.name}`;
}

function idOf(text: string): MessageId {
  if (isMessageId(text)) return text;
  throw new Refusal('invalid_request', 'an eventId is made of letters, digits, . _ -');
}

/** One event as a tool shows it: what a model needs, in few words. */
function viewed(view: EventView): object {
  const {
    id,
    conversation,
    from,
    to,
    at,
    attention,
    body,
    refs,
    thread,
    disposition,
    proven,
    signal,
    means,
    claim: held,
  } = view;
  return {
    eventId: id,
    conversation,
    from,
    to,
    at,
    ...attention,
    ...(body !== undefined && { text: masked(body) }),
    ...(refs && { refs: refs.map(masked) }),
    ...(thread !== undefined && { inReplyTo: thread }),
    ...(signal !== undefined && { signal }),
    ...(means && { means }),
    disposition,
    proven,
    ...(held && { claim: { holder: held.holder, until: new Date(held.until).toISOString() } }),
  };
}
