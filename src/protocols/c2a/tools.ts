import { masked } from '../../core/attention/secrets.ts';
import type { ToolArguments, ToolName, Progress } from './shapes.ts';
import { isMessageId } from '../../core/names.ts';
import type { MessageId, AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { blocked, delegated, owe } from '../../core/obligations/owed.ts';
import type { Blocking } from '../../core/message.ts';
import { claim, unclaim } from '../../core/obligations/claim.ts';
import { defer, resolve } from '../../core/obligations/defer.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { listEvents, readThread } from '../../core/history/events.ts';
import type { EventView } from '../../core/history/events.ts';
import { heldLines } from '../../core/mail/held.ts';
import { react } from '../../core/obligations/react.ts';
import type { Runner } from './runner.ts';
import { say } from '../../core/mail/say.ts';
import type { Sent } from '../../core/mail/send.ts';
import { neverShown } from '../../core/mail/shown.ts';
import type { HostContext } from './context.ts';
import type { HostSession } from './session.ts';
import { bridgeName, rawConversation } from './platform-names.ts';
import type { Surface } from './surface.ts';

type Tool<Name extends ToolName> = (runner: Runner, args: ToolArguments<Name>) => Promise<unknown>;

/** The seven tools. Each calls one function of core and answers in a few masked words. spec: host#tools */
export const TOOL_CALLS: { [Name in ToolName]: Tool<Name> } = {
  async 'chat.list_events'({ session }, args) {
    const { events, cursor } = await listEvents(session.whos, { ...args, now: session.context.deps.now() });
    return { events: events.map(viewed), cursor };
  },

  async 'chat.read_thread'({ session }, { eventId, conversation, cursor, limit }) {
    if (eventId === undefined && conversation === undefined) {
      throw new Refusal('invalid_request', 'name an eventId or a conversation');
    }
    const page = { cursor, limit, now: session.context.deps.now() };
    const read = await readThread(session.whos, { event: eventId, conversation }, page);
    return { messages: read.messages.map(viewed), earlier: read.earlier, cursor: read.cursor };
  },

  async 'chat.send_message'(runner, args) {
    const { session } = runner;
    const who = await actorFor(runner, args.inReplyTo);
    await session.sends.turn('messages');
    const target = targetOf(args.target, who);
    const obligation = await withDelegate(session, who, target, args.obligation);
    const sent = await speak(session.context, who, { ...args, target, ...(obligation && { obligation }) });
    const about = sent.message.thread;
    // The turn has a reply to this event: its final text is not taken as a second one.
    if (isMessageId(about)) session.turn?.said.add(about);
    session.context.stored(sent.copies);
    try {
      const shown = await shownAt(session.context, sent);
      const held = heldLines(sent.copies, 'c2a');
      return {
        eventId: sent.message.id,
        first: sent.first,
        recipients: sent.copies.map(({ mailbox }) => mailbox),
        ...(held.length > 0 && { held }),
        ...shown,
      };
    } finally {
      // Once the answer was shown or refused, the event it replies to may have ended.
      if (isMessageId(about)) await session.recheck(who, about);
    }
  },

  async 'chat.react'(runner, { inReplyTo, signal, eta, recipient }) {
    const { session } = runner;
    const id = idOf(inReplyTo);
    const who = await actorFor(runner, id);
    await session.sends.turn('reactions');
    const reaction = { signal, eta, recipient, ifUnknown: 'refuse' as const };
    const { disposition, final, sent } = await react(session.context.deps.workspace, who, id, reaction);
    await session.recheck(who, id);
    session.context.stored(sent?.copies ?? []);
    return { disposition, final, ...(sent && { reactionId: sent.message.id }) };
  },

  async 'chat.claim'(runner, { eventId, release }) {
    const { session } = runner;
    const id = idOf(eventId);
    const who = await actorFor(runner, id);
    if (release) return { released: await unclaim(session.context.deps.workspace, who, id) };
    const { until } = await claim(session.context.deps.workspace, who, id);
    runner.reveal(who, id);
    return { claimed: true, until: new Date(until).toISOString() };
  },

  async 'chat.defer'(runner, { eventId, reason, until }) {
    const id = idOf(eventId);
    const who = await actorFor(runner, id);
    const obligation = await defer(runner.session.context.deps.workspace, who, id, { reason, until });
    return {
      disposition: 'deferred',
      ...(obligation.due !== null && { until: new Date(obligation.due).toISOString() }),
    };
  },

  async 'chat.resolve'(runner, { eventId, note }) {
    const { session } = runner;
    const id = idOf(eventId);
    const who = await actorFor(runner, id);
    const resolved = await resolve(session.context.deps.workspace, who, id, note);
    for (const one of resolved) await session.recheck(who, one);
    session.context.stored();
    return { resolved };
  },
};

/** The mailbox of the session that acts: the one that has the event, else the first. */
async function actorFor({ session }: Runner, id: string | undefined): Promise<Who> {
  const [first] = session.whos;
  if (!first) throw new Refusal('no_identity', 'this session is bound to no mailbox; bind it to one that exists');
  if (session.whos.length === 1 || !isMessageId(id)) return first;
  for (const who of session.whos) if (await who.home.journal.copy(who.name, id)) return who;
  return first;
}

const COORDINATOR = 'lead' as AgentName;

/** In the draft of 2026-08-11 the author's coordinator may discharge an obligation whose author names no delegate. */
async function withDelegate(
  { link }: HostSession,
  { name, home }: Who,
  target: string,
  obligation: Blocking | undefined,
): Promise<Blocking | undefined> {
  if (!obligation || obligation.delegate !== undefined || link?.version !== '2026-08-11') return obligation;
  const leads = await home.directory.members(COORDINATOR);
  const lead = leads.find((one) => one.name !== name && `@${one.name}` !== target);
  return lead ? { ...obligation, delegate: lead.name } : obligation;
}

/** Accepts a target as the header of an event writes it (`thread:…`), and as people write it. */
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

/** One event as a tool shows it to a model: short. */
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

/** How long a tool waits for a surface to show a message. A message that is not shown by then is shown later. */
const SHOWN_WAIT_MS = 5000;

type Said = ToolArguments<'chat.send_message'>;

/** Sends a message. An ephemeral one needs a surface that can show it so, and goes to one person there. */
async function speak(context: HostContext, who: Who, said: Said): Promise<Sent> {
  const { workspace } = context.deps;
  if (said.visibility !== 'ephemeral') return say(workspace, who, said);
  const surface = context.surfaceOf(said.target.replace(/^@/, ''));
  if (!surface?.ephemeral) {
    throw new Refusal('not_in_this_version', `nothing there can show a message for a moment only; send it as a dm`);
  }
  const id = workspace.newId();
  surface.showing.markEphemeral(id);
  return say({ ...workspace, newId: () => id }, who, { ...said, visibility: 'dm' });
}

/**
 * Whether a surface showed the message within `SHOWN_WAIT_MS`. If it never can, the sender gets a refusal and may send it in another way:
 * nobody has seen it.
 */
export async function shownAt(context: HostContext, { message, copies }: Sent): Promise<{ shown?: boolean }> {
  const at = copies.flatMap(({ mailbox }) => {
    const surface = context.surfaceOf(mailbox);
    const isShownThere = surface && (!message.to.startsWith('#') || mailbox === bridgeName(surface.origin.name));
    return isShownThere ? [{ surface, mailbox }] : [];
  });
  let shown: boolean | undefined;
  for (const { surface, mailbox } of at) {
    const ended = (): Promise<boolean> => wasShown(context, mailbox, message.id);
    const isShown =
      (await ended()) || (await surface.showing.outcome(message.id, SHOWN_WAIT_MS)) === 'shown' || (await ended());
    shown = isShown && shown !== false;
  }
  return shown === undefined ? {} : { shown };
}

/** False while no surface has answered. A surface's refusal becomes ours. */
async function wasShown({ deps }: HostContext, mailbox: AgentName, id: MessageId): Promise<boolean> {
  const copy = await deps.home.journal.copy(mailbox, id);
  if (copy?.state !== 'settled') return false;
  if (copy.disposition === 'failed') throw neverShown(copy.settledBy ?? {});
  return true;
}

/** The order of the open sets: what halts work first, then the oldest. */
const BLOCKS = ['halted', 'degraded', 'none', undefined];

/** What these agents owe, or what they wait for as authors or delegates. spec: host#open-set */
export async function openSet(whos: readonly Who[], which: 'owed' | 'blocking', limit: number): Promise<object> {
  const ask = async (who: Who) =>
    which === 'owed' ? [await owe(who, { limit })] : [await blocked(who, { limit }), await delegated(who, limit)];
  const sets = (await Promise.all(whos.map(ask))).flat();
  const events = sets
    .flatMap(({ obligations }) => obligations)
    .map(({ id, mailbox, from, at, kind, returns, message }) => ({
      eventId: id,
      recipient: mailbox,
      author: from,
      createdAt: new Date(at).toISOString(),
      kind,
      returns,
      ...(message && { text: masked(message.body) }),
      ...(message?.parley?.obligation && { obligation: message.parley.obligation }),
    }))
    .toSorted((a, b) => rank(a) - rank(b) || a.createdAt.localeCompare(b.createdAt));
  return { events: events.slice(0, limit), more: sets.some(({ more }) => more) || events.length > limit };
}

function rank({ obligation }: { obligation?: Blocking }): number {
  return BLOCKS.indexOf(obligation?.blocks);
}

/** Shows a session's progress at the surfaces that have one of its channels. Progress is not a message: it is not stored and mentions nobody. */
export async function showProgress(
  { deps }: HostContext,
  session: HostSession,
  { progressToken, progress, total, message }: Progress,
  surfaces: readonly Surface[],
): Promise<void> {
  for (const { origin, wire } of surfaces) {
    const bridge = await deps.home.directory.get(bridgeName(origin.name));
    for (const stream of session.record.streams) {
      if (!bridge?.subscriptions.includes(stream)) continue;
      const id = `progress.${session.id}.${progressToken}`;
      const shown = wire.show({
        what: 'progress',
        id,
        idempotencyKey: `${id}.${progress}`,
        conversation: { id: rawConversation(origin, stream), kind: 'channel' },
        author: {
          id: session.whos[0]?.name ?? session.id,
          kind: 'agent',
          displayName: session.whos[0]?.name ?? session.id,
        },
        visibility: 'channel',
        mentions: [],
        text: [`${progress}${total === undefined ? '' : `/${total}`}`, message].filter(Boolean).join(' '),
      });
      // A lost update does no harm: the next one replaces it.
      shown.catch(() => {});
    }
  }
}
