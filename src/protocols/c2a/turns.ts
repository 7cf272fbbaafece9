import { quieter } from '../../core/attention/decide.ts';
import type { Turn } from './shapes.ts';
import { SendKey } from '../../core/names.ts';
import type { MessageId } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { arrivalOf } from '../../core/mail/arrival.ts';
import { claim, renewClaim } from '../../core/obligations/claim.ts';
import { isOfferedToSeveral, rootOf } from '../../core/mail/conversation.ts';
import { endObligation, answerIn } from '../../core/obligations/obligation.ts';
import { say } from '../../core/mail/say.ts';
import type { Sent } from '../../core/mail/send.ts';
import { failureFacts } from './tasks.ts';
import { recordStep } from './context.ts';
import { aGroup, keyOf } from './item.ts';
import type { Item } from './item.ts';
import type { Runner } from './runner.ts';
import { shownAt } from './tools.ts';
import type { Message } from '../../core/message.ts';

/** How long after a failed turn its events are offered again, and how often at most. */
const AFTER_FAILURE_MS = 5000;
const MOST_ATTEMPTS = 5;

/** A turn started, reached a boundary, ended or failed. spec: host#turns */
export async function onTurn(runner: Runner, turn: Turn): Promise<void> {
  const { session } = runner;
  const { now } = session.context.deps;
  const events = new Set(turn.eventIds);
  switch (turn.state) {
    case 'started':
      session.turn = { since: now(), events, said: new Set() };
      await shown(runner, turn.eventIds);
      break;
    case 'boundary':
      session.turn ??= { since: now(), events, said: new Set() };
      for (const id of events) session.turn.events.add(id);
      await keepClaims(runner);
      runner.clear();
      break;
    case 'ended':
      await shown(runner, turn.eventIds);
      await takeFinalText(runner, turn);
      session.turn = null;
      await keepClaims(runner);
      break;
    case 'failed':
      await retryLater(runner, turn);
      session.turn = null;
      break;
  }
  runner.ask();
}

/** The harness says that its model saw these events. */
async function shown({ session }: Runner, ids: readonly MessageId[]): Promise<void> {
  for (const item of openIn(session.open, ids)) {
    await recordStep(session.context, item.who.name, item.message.id, 'shown', { session: session.id });
  }
}

/**
 * Sends the final text of a turn as the reply that is still owed. If a tool replied to the event in this turn, that was the reply. If the
 * turn had owed events of several conversations, the text may be meant for only one of them: then it is not sent, and all replies stay
 * owed. spec: host#final
 */
async function takeFinalText(runner: Runner, { eventIds, finalText = '' }: Turn): Promise<void> {
  const { session } = runner;
  const { deps } = session.context;
  const ids = eventIds.length > 0 ? eventIds : [...(session.turn?.events ?? [])];
  const owed: Item[] = [];
  for (const item of openIn(session.open, ids)) if (await isOwed(runner, item)) owed.push(item);
  const event = owed.at(-1);
  if (finalText.trim() === '' || !event) return;
  if (new Set(owed.map(({ conversation, author }) => `${conversation.id} ${author.name}`)).size > 1) {
    deps.log('host.final_text_not_taken', { session: session.id, events: owed.length });
    return;
  }
  try {
    const sent = await reply(runner, event, finalText);
    await session.recheck(event.who, event.message.id);
    const others = owed.filter((one) => one !== event);
    if (others.length > 0) session.context.tasks.run('answered too', () => answeredToo(session, others, sent));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    deps.log('host.final_text_refused', { session: session.id, event: event.message.id, ...failureFacts(error) });
  }
}

/** If one turn had several events of one author, the answer to the last answers all, except those that block others' work. */
async function answeredToo(session: Runner['session'], items: readonly Item[], sent: Sent): Promise<void> {
  await shownAt(session.context, sent);
  const [first] = items;
  // The answer was not shown yet, so the other replies stay owed.
  if (first && (await arrivalOf(first.who.home, first.message.from, sent.message)) !== 'arrived') return;
  const by = { with: sent.message.thread ?? sent.message.id };
  for (const item of items) {
    const { who, message } = item;
    if (message.parley?.obligation) continue;
    await endObligation(who.home, who.name, message.id, 'responded', by, session.context.deps.now());
    await session.end(item, 'responded', by);
  }
}

/** Is a reply owed? It must be answered, is neither ended nor deferred, and has no reply, in this turn or an earlier one. */
async function isOwed({ session }: Runner, item: Item): Promise<boolean> {
  const { attention, message, who } = item;
  if (attention.policy !== 'must_respond' || session.turn?.said.has(message.id)) return false;
  const obligation = await who.home.journal.obligation(who.name, message.id);
  if (obligation && (obligation.ended !== null || obligation.state !== 'open')) return false;
  return (await answerTo(item)) === undefined;
}

/** Sends a reply under one key per event, so a repeated turn cannot send a second one. */
async function reply({ session }: Runner, { who, message, conversation }: Item, text: string): Promise<Sent> {
  const { workspace } = session.context.deps;
  const isChannel = message.to.startsWith('#');
  if (isOfferedToSeveral(message, [who.name])) await claim(workspace, who, message.id);
  const sent = await say(workspace, who, {
    target: isChannel ? message.to : `@${message.from}`,
    text,
    inReplyTo: message.id,
    idempotencyKey: SendKey.parse(`final/${message.id}`),
    visibility: isChannel || conversation.threadId !== undefined ? 'thread' : 'dm',
    directedness: 'to_me',
    intent: 'none',
    priority: 'normal',
  });
  session.context.stored();
  return sent;
}

/** Sends the events of a failed turn again later, except those that already have a reply. spec: host#failed */
async function retryLater({ session }: Runner, { eventIds }: Turn): Promise<void> {
  const ids = eventIds.length > 0 ? eventIds : [...(session.turn?.events ?? [])];
  for (const item of openIn(session.open, ids)) {
    if (session.turn?.said.has(item.message.id) || item.attempts >= MOST_ATTEMPTS) continue;
    if (await isAnswerWaiting(item)) continue;
    // Record the release first: a host that is killed now offers the event again after its restart.
    const because = 'its turn failed';
    await recordStep(session.context, item.who.name, item.message.id, 'released', { session: session.id, because });
    session.open.delete(keyOf(item));
    const again = { ...item, mode: quieter(item.attention.injection, session.link?.capabilities.injection ?? {}) };
    session.queue.putBack(aGroup(again, { notBefore: session.context.deps.now() + AFTER_FAILURE_MS }));
  }
}

/** Renews the claims of the session's agents: they are at work. */
async function keepClaims({ session }: Runner): Promise<void> {
  const now = session.context.deps.now();
  for (const { name, home } of session.whos) {
    for (const { key, reserved } of await home.journal.claimsOf(name, now)) {
      if (!reserved) await renewClaim(home, name, key, now);
    }
  }
}

function openIn(open: ReadonlyMap<string, Item>, ids: readonly MessageId[]): Item[] {
  return [...open.values()].filter(({ message }) => ids.includes(message.id));
}

/** How many messages of an exchange are searched for an answer. */
const EXCHANGE = 200;

/** The reply of an event's reader, if there is one. */
export async function answerTo({ who, message }: Item): Promise<Message | undefined> {
  const exchange = await who.home.journal.exchange(rootOf(message), EXCHANGE);
  return exchange.find((said) => answerIn(message, who.name, said));
}

/** Has the reader answered, with an answer that a surface must still show? */
export async function isAnswerWaiting(item: Item): Promise<boolean> {
  const said = await answerTo(item);
  return said !== undefined && (await arrivalOf(item.who.home, item.message.from, said)) === 'waiting';
}
