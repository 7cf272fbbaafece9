import { answerIn } from '../obligations/obligation.ts';
import { isQuietTime } from '../attention/quiet-hours.ts';
import { checkableIn } from '../attention/checkable.ts';
import { insists, decide } from '../attention/decide.ts';
import { nextLineage } from '../attention/lineage.ts';
import { breaksEcho, isLongExchange, LONG_EXCHANGE } from '../attention/loop.ts';
import type { Guard } from '../attention/loop.ts';
import type { Extras, Lineage, Message } from '../message.ts';
import type { MessageId } from '../names.ts';
import type { Home } from './workspace.ts';
import type { Attention } from '../attention/attention.ts';
import { AgentName, isMessageId } from '../names.ts';
import type { Quiet } from '../attention/quiet-hours.ts';
import type { AgentExtras, AgentRecord } from '../ports/directory.ts';
import { calledIn } from '../attention/text.ts';
import { asksQuestion, endsInQuestion, isOnlyThanks } from '../attention/thanks.ts';

/** The parts of a draft, or of a message that another program wrote, that decide its place in an exchange. */
export type Content = Pick<Message, 'to' | 'body' | 'refs' | 'thread'> &
  Pick<Extras, 'intent' | 'signal' | 'obligation' | 'replaces'> & { priority: string };

interface Answer {
  from: string;
  fromAgent: boolean;
  content: Content;
  thread: MessageId;
  parent: Message | null;
  /** The earlier messages of the exchange, oldest first. */
  earlier: readonly Message[];
}

/** The lineage of an answer. */
export function lineageOf({ from, fromAgent, content, thread, parent, earlier }: Answer): Lineage | undefined {
  const said = { ...content, from, byAgent: fromAgent, insists: isInsistent(content) };
  return nextLineage(parent && { ...parent, lineage: parent.parley?.lineage }, thread, said, earlier);
}

/** The guard that holds back an answer of an agent, or null. spec: c2a#loops */
export async function guardOf(
  home: Home,
  lineage: Lineage | undefined,
  content: Content,
  earlier: readonly Message[],
  now: number,
): Promise<Guard | null> {
  if (!lineage || isInsistent(content)) return null;
  if (breaksEcho(lineage)) return 'echo';
  return lineage.stale > 0 && (await isLong(home, earlier.slice(-LONG_EXCHANGE), now)) ? 'long' : null;
}

function isInsistent({ intent = 'none', priority, signal, obligation }: Content): boolean {
  return obligation !== undefined || insists({ intent, priority: priority === 'urgent' ? 'urgent' : 'normal', signal });
}

/** Tests the length first: only the few long exchanges pay for reading what their readers did. */
async function isLong(home: Home, last: readonly Message[], now: number): Promise<boolean> {
  const turns = last.map(({ ts, body, refs, parley }) => ({
    at: Date.parse(ts),
    byAgent: true,
    fact: parley?.lineage ? parley.lineage.stale === 0 : checkableIn(body, refs).length > 0,
    disposition: parley?.signal !== undefined,
  }));
  if (!isLongExchange(turns, now)) return false;
  const agents = new Map<string, boolean>();
  for (const { from } of last) if (!agents.has(from)) agents.set(from, await isAgent(home, from));
  const disposed = await Promise.all(last.map(({ id }) => isDisposedOf(home, id)));
  const known = turns.map((turn, at) => ({
    ...turn,
    byAgent: agents.get(last[at]?.from ?? '') ?? true,
    disposition: turn.disposition || disposed[at] === true,
  }));
  return isLongExchange(known, now);
}

/** Acts of a reader on a message. Being shown the message, or answering it, does not count. */
const ON_PURPOSE: ReadonlySet<unknown> = new Set(['reacted', 'claimed', 'deferred', 'ack', 'resolve']);

async function isDisposedOf(home: Home, id: MessageId): Promise<boolean> {
  const { copies = [] } = (await home.journal.trace(id)) ?? {};
  return copies.some(
    ({ settledBy, receipts }) =>
      ON_PURPOSE.has(settledBy?.['by']) ||
      receipts.some(({ step, evidence }) => ON_PURPOSE.has(step) || ON_PURPOSE.has(evidence['by'])),
  );
}

/** How many messages of an exchange are compared to decide whether a message says anything new. */
const EXCHANGE = 50;
/** A message by name between two agents counts as an answer if the other one wrote within this time. */
const SOON_MS = 60 * 60 * 1000;

/** The exchange that a message is part of. It is the same for every reader. */
interface Exchange {
  fromAgent: boolean;
  lineage: Lineage | undefined;
  earlier: Message[];
  /** The guard that holds the message back from readers that are agents. */
  guard: Guard | null;
}

/** For a message that names no other as its thread, to readers without a policy: their attention depends on nothing else. */
export const NO_EXCHANGE: Exchange = { fromAgent: true, lineage: undefined, earlier: [], guard: null };

/** Finds the exchange of a message, from our own journal only. */
export async function exchangeOf(
  home: Home,
  from: string,
  content: Content,
  now: number,
  reader?: AgentRecord,
): Promise<Exchange> {
  const fromAgent = await isAgent(home, from);
  const namesThread = isMessageId(content.thread);
  const isPlain = fromAgent && content.thread === undefined;
  const likely = isPlain && reader ? await likelyParent(home, from as AgentName, reader, now) : null;
  const thread = namesThread ? content.thread : likely?.id;
  if (!isMessageId(thread)) return { fromAgent, lineage: undefined, earlier: [], guard: null };
  const parent = likely ?? (await home.journal.message(thread));
  const said = await home.journal.exchange(parent?.parley?.lineage?.root ?? thread, EXCHANGE);
  // A message that replaces an older version does not repeat it.
  const earlier = said.filter(({ id }) => id !== content.replaces);
  const lineage = lineageOf({ from, fromAgent, content, thread, parent, earlier });
  const guard = fromAgent ? await guardOf(home, lineage, content, earlier, now) : null;
  // Only the lineage is guessed. The thread of a message is what its sender says.
  return { fromAgent, lineage, earlier: namesThread ? earlier : [], guard };
}

/**
 * The message that a plain send probably answers: two agents that write to each other by name in turn answer each other. Without this rule,
 * agents that thank each other by plain sends would never be stopped. spec: message#lineage
 */
async function likelyParent(home: Home, from: AgentName, reader: AgentRecord, now: number): Promise<Message | null> {
  if (reader.parley?.kind !== 'agent' || reader.name === from) return null;
  return home.journal.unanswered(reader.name, from, now - SOON_MS);
}

/** Step 3 of 5. Decides how one recipient should see a message: whether it is meant, whether it must answer, and how much it sees. */
export function attend(
  home: Home,
  message: Message,
  reader: AgentRecord,
  via: 'dm' | 'role' | 'channel',
  exchange: Exchange,
  now = Date.parse(message.ts),
): Attention | Promise<Attention> {
  const { name, parley } = reader;
  return parley ? attendBy(parley, home, message, name, via, exchange, now) : EVERYTHING_SHOWN;
}

/** Decides by the reader's own policy. */
async function attendBy(
  parley: AgentExtras,
  home: Home,
  message: Message,
  reader: AgentName,
  via: 'dm' | 'role' | 'channel',
  { fromAgent, lineage, earlier, guard }: Exchange,
  now: number,
): Promise<Attention> {
  const { intent = 'none', signal, aim, replaces } = message.parley ?? {};
  const { owns = [], left = [] } = parley;
  const isHere = (what: string): boolean => what === message.to || what === lineage?.root;
  const said = await readingOf(home, message);
  const mentions = said.called;
  const asks = (message.thread !== undefined || lineage !== undefined || intent === 'thanks') && said.asksQuestion;
  return decide({
    via,
    fromAgent,
    // A direct message to oneself should be read, perhaps by another session. One's own message in a channel should not.
    fromMe: (via !== 'dm' || signal !== undefined) && message.from === reader,
    mentionsMe: mentions.includes(reader),
    calledAfter: via !== 'dm' && parley.kind === 'agent' && (await isCalledAfter(home, message, reader, mentions)),
    mentionsOther: mentions.some((name) => name !== reader),
    mentionsMyRole: mentions.some((name) => parley.roles.includes(name)),
    inThreadIHaveJoined: earlier.some((one) => one.from === reader),
    ownsThread:
      (lineage !== undefined && owns.includes(lineage.root)) ||
      (await opened(home, message.thread, lineage?.root, reader, earlier)),
    ownsStream: via === 'channel' && owns.includes(message.to),
    threadReply: message.thread !== undefined,
    answersMe: earlier.some((one) => one.id === message.thread && one.from === reader),
    intent,
    priority: message.priority === 'urgent' ? 'urgent' : 'normal',
    onlyThanks: said.isOnlyThanks,
    asksQuestion: asks,
    guard: parley.kind === 'agent' ? guard : null,
    quietTime: parley.quiet !== undefined && (await isQuietAt(parley.quiet, now)),
    left: left.some(isHere),
    signal,
    changesObligation: signal !== undefined && (await changesObligation(home, message, reader)),
    aim,
    edited: replaces !== undefined && (await hadAnswered(home, message.from, replaces, reader)),
    // Only Parley itself escalates; its notices get their attention in obligations/escalate.ts.
    escalation: false,
  });
}

export async function isQuietAt(quiet: Quiet, now: number): Promise<boolean> {
  const clock = new Date(now);
  return isQuietTime(quiet, now, clock.getHours() * 60 + clock.getMinutes());
}

/** Signals that say that the reader will not get what it waits for, or not yet. */
const HINDERING: readonly string[] = ['declined', 'blocked', 'unclear'];

/** Does a reaction change an obligation of its reader, or one that its reader waits for? */
async function changesObligation(home: Home, { from, thread, parley }: Message, reader: AgentName): Promise<boolean> {
  if (parley?.recipient === reader) return true;
  const { signal = '' } = parley ?? {};
  if (!isMessageId(thread) || !(HINDERING.includes(signal) || signal === 'agree')) return false;
  // The author of an approval request waits for the yes, too. Elsewhere agreement changes nothing.
  if (signal === 'agree' && (await home.journal.message(thread))?.parley?.intent !== 'approval') return false;
  const theirs = await home.journal.copy(from as AgentName, thread);
  return theirs?.attention.policy === 'must_respond';
}

/** Did the reader answer the older version of a message that its author now replaces? */
async function hadAnswered(home: Home, from: string, replaced: MessageId, reader: AgentName): Promise<boolean> {
  const message = await home.journal.message(replaced);
  if (message?.from !== from) return false;
  const exchange = await home.journal.exchange(message.parley?.lineage?.root ?? replaced, EXCHANGE);
  return exchange.some((said) => answerIn(message, reader, said));
}

/** The decision on a copy that another program left in a mailbox. Its sender's claims about it are not believed. */
export async function attendForeign(
  home: Home,
  reader: AgentName,
  message: Message,
): Promise<{ attention: Attention; lineage: Lineage | undefined }> {
  const exchange = await exchangeOf(home, message.from, { ...message.parley, ...message }, Date.parse(message.ts));
  const record = await home.directory.get(reader);
  const isMine = message.to.replace(/^@/, '') === reader;
  const via = message.to.startsWith('#') ? 'channel' : isMine ? 'dm' : 'role';
  const attention = record ? await attend(home, message, record, via, exchange) : EVERYTHING_SHOWN;
  return { attention, lineage: exchange.lineage };
}

/**
 * True if this reader wrote the message that opened the thread: the first one that names no thread itself. The root of its lineage may be
 * an earlier message, because lineage is partly guessed.
 */
async function opened(
  home: Home,
  thread: string | undefined,
  root: MessageId | undefined,
  reader: AgentName,
  earlier: Message[],
): Promise<boolean> {
  if (thread === undefined || !root) return false;
  const byId = new Map(earlier.map((one) => [String(one.id), one]));
  let opening = byId.get(thread);
  // Files of other programs may answer each other in a circle.
  for (let n = 0; opening?.thread !== undefined && n < EXCHANGE; n += 1) opening = byId.get(opening.thread);
  opening ??= byId.get(root) ?? (await home.journal.message(root)) ?? undefined;
  return opening?.from === reader;
}

/** Does the message name another agent that also gets it, before it names the reader? */
async function isCalledAfter(
  home: Home,
  { from, to }: Message,
  reader: AgentName,
  mentions: readonly AgentName[],
): Promise<boolean> {
  for (const name of mentions.slice(0, mentions.indexOf(reader) + 1)) {
    if (name === reader) return false;
    const record = name === from ? null : await home.directory.get(name);
    if (!record || record.parley?.kind === 'human') continue;
    const heard: string[] = [...record.subscriptions, ...(record.parley?.roles ?? [])];
    if (heard.includes(to.replace(/^@/, ''))) return true;
  }
  return false;
}

/** An agent of another program has no policy: it sees everything. */
const EVERYTHING_SHOWN: Attention = {
  directedness: 'to_me',
  policy: 'must_respond',
  injection: 'buffered',
  reason: 'no_policy',
};

/** True for every name that is not known to be a person. */
export async function isAgent(home: Home, name: string): Promise<boolean> {
  const known = AgentName.safeParse(name);
  return !known.success || (await home.directory.get(known.data))?.parley?.kind !== 'human';
}

/** What the text of a message says. It is the same for every reader. */
interface Reading {
  /** The agents and roles that the text names. */
  called: AgentName[];
  isOnlyThanks: boolean;
  asksQuestion: boolean;
}

/** One reading for each message: a channel may have hundreds of readers. */
const readings = new WeakMap<Message, Promise<Reading>>();

function readingOf(home: Home, message: Message): Promise<Reading> {
  const reading = readings.get(message) ?? read(home, message);
  readings.set(message, reading);
  return reading;
}

async function read(home: Home, message: Message): Promise<Reading> {
  const { body, parley } = message;
  const called = await known(home, calledIn(message));
  // A model's final words often repeat the question that they answer.
  const asks = parley?.captured ? endsInQuestion : asksQuestion;
  return { called, isOnlyThanks: isOnlyThanks(body), asksQuestion: asks(body) };
}

/** How many names of one body are looked up. */
const MENTIONS = 20;

/** The agents and roles among the first `MENTIONS` names. Other words after an @ (decorators, packages) name nobody. */
async function known(home: Home, names: readonly string[]): Promise<AgentName[]> {
  const called = names.slice(0, MENTIONS).filter((name): name is AgentName => AgentName.safeParse(name).success);
  const here = new Set<AgentName>();
  for (const name of called) if (await home.directory.get(name)) here.add(name);
  const others = called.filter((name) => !here.has(name));
  for (const role of others.length > 0 ? await home.directory.rolesAmong(others) : []) here.add(role);
  return called.filter((name) => here.has(name));
}
