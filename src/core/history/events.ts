import { receipt } from '../receipt.ts';
import { deadlineOf } from '../obligations/rules.ts';
import type { Attention, Policy } from '../attention/attention.ts';
import type { Message } from '../message.ts';
import { isMessageId } from '../names.ts';
import type { AgentName, MessageId } from '../names.ts';
import type { Disposition, Step } from '../receipt.ts';
import { meaningOf } from '../signal.ts';
import type { Meaning, Signal } from '../signal.ts';
import type { Obligation } from '../obligations/rules.ts';
import type { EventClaim } from '../ports/obligations.ts';
import type { HistoryRow, Page } from '../ports/journal.ts';
import { claimOn } from '../obligations/claim.ts';
import { conversationOf, rootOf } from '../mail/conversation.ts';
import type { Conversation } from '../mail/conversation.ts';
import type { Home, Who } from '../mail/workspace.ts';
import { enterObligations } from '../obligations/obligation.ts';
import { listens, maySee, unknownEvent, visible } from './sight.ts';
import type { HomeLabel } from '../address.ts';
import { Refusal } from '../refusal.ts';

/** One event as one reader sees it. A reader without a copy of its own only overhears the event. spec: host#events */
export interface EventView {
  id: MessageId;
  seq: number;
  conversation: Conversation;
  from: string;
  to: string;
  at: string;
  attention: Attention;
  /** Absent if the body is no longer kept. */
  body?: string;
  refs?: string[];
  /** The event that this event answers or reacts to. */
  thread?: string;
  disposition: Disposition | null;
  proven: Step;
  signal?: Signal;
  /** What the signal asks the reader to do, if it is about the reader's own message. */
  means?: Meaning;
  /** How many answers to the event were refused. */
  refused: number;
  claim: EventClaim | null;
  attempt: number;
  /** The mailbox of the copy; null for an overheard event and for the reader's own message. */
  mailbox: AgentName | null;
}

export interface EventFilter {
  stream?: string | undefined;
  conversation?: string | undefined;
  policy?: Policy | undefined;
  since?: string | undefined;
  until?: string | undefined;
  cursor?: string | undefined;
  limit: number;
  now?: number;
}

/** Counting of earlier messages stops at this number. */
const COUNTED = 500;

const OVERHEARD: Attention = {
  directedness: 'ambient',
  policy: 'must_not_respond',
  injection: 'tool_mailbox',
  reason: 'ambient',
};

const STEPS = ['stored', 'offered', 'accepted', 'shown', 'settled'] as const satisfies readonly Step[];

/**
 * The events of these readers, newest first, without their own messages and without silent ones. Reading an event does not change it.
 * spec: host#list
 */
export async function listEvents(
  whos: readonly Who[],
  filter: EventFilter,
): Promise<{ events: EventView[]; cursor: string | null }> {
  const homes = await entered(whos);
  const { stream, conversation } = filter;
  const wholeChannel = stream !== undefined && (await listens(whos, stream)) ? stream : undefined;
  const from = readCursor(filter.cursor);
  const rows = pages(homes, namesIn(whos), { channel: wholeChannel, from });
  const events: EventView[] = [];
  const places: PagePosition[] = [...from];
  for await (const { home, row } of rows) {
    if (events.length === filter.limit) return { events, cursor: cursorOf(places) };
    places.push({ home: home.label, seq: row.seq });
    if (!isWithin(row, filter)) continue;
    if (stream !== undefined && row.message.to !== stream) continue;
    if (conversation !== undefined && !isOf(row, conversation)) continue;
    const view = await viewOf(whos, home, row, filter.now);
    if (isListed(view, whos) && (!filter.policy || view.attention.policy === filter.policy)) events.push(view);
  }
  // The call has read its most rows; the next call continues.
  return { events, cursor: places.length - from.length < LOOKED_AT ? null : cursorOf(places) };
}

/** Reads a thread, or the end of a conversation: one page, oldest first, and how many messages are before it. spec: host#thread */
export async function readThread(
  whos: readonly Who[],
  of: { event?: string | undefined; conversation?: string | undefined },
  page: { cursor?: string | undefined; limit: number; now?: number },
): Promise<{ messages: EventView[]; earlier: number; cursor: string | null }> {
  const homes = await entered(whos);
  const from = readCursor(page.cursor);
  const named = of.event ?? of.conversation ?? '';
  const seen = of.event === undefined ? null : await visible(whos, of.event);
  const isChannel = seen === null && named.startsWith('#') && (await listens(whos, named));
  const rows = seen
    ? pages([seen.home], namesIn(whos), { thread: rootOf(seen.message), from })
    : pages(homes, namesIn(whos), { channel: isChannel ? named : undefined, from });
  const messages: EventView[] = [];
  const places: PagePosition[] = [...from];
  let earlier = 0;
  for await (const { home, row } of rows) {
    if (!(await maySee(whos, home, row)) || (!seen && !isOf(row, named))) continue;
    if (messages.length === page.limit) earlier += 1;
    else {
      places.push({ home: home.label, seq: row.seq });
      messages.push(await viewOf(whos, home, row, page.now));
    }
    if (earlier === COUNTED) break;
  }
  // The refusal is the same for an empty conversation and for one that the readers may not see.
  if (messages.length === 0 && page.cursor === undefined) throw unknownEvent(named);
  for (const view of messages) await noteRead(whos, view, page.now);
  return { messages: messages.reverse(), earlier, cursor: earlier > 0 ? cursorOf(places) : null };
}

/** One message as one of these readers sees it. */
export async function viewOf(
  whos: readonly Who[],
  home: Home,
  { message, pruned, seq, recipients }: HistoryRow,
  now = Date.now(),
): Promise<EventView> {
  const mine = namesIn(whos).get(home) ?? [];
  const copies = (await home.journal.trace(message.id))?.copies ?? [];
  const copy = mine.flatMap((name) => copies.find(({ mailbox }) => mailbox === name) ?? [])[0];
  const obligation = copy && (await home.journal.obligation(copy.mailbox, message.id));
  const { signal } = message.parley ?? {};
  const means = copy && (await meansTo(copy.mailbox, home, message));
  return {
    id: message.id,
    seq,
    conversation: conversationOf(message, recipients),
    from: message.from,
    to: message.to,
    at: message.ts,
    attention: copy?.attention ?? OVERHEARD,
    ...(!pruned && { body: message.body }),
    ...(message.refs && { refs: message.refs }),
    ...(message.thread !== undefined && { thread: message.thread }),
    disposition: obligation ? dispositionOf(obligation) : (copy?.disposition ?? null),
    proven: copy?.state === 'settled' ? 'settled' : highest(copy?.receipts.map(({ step }) => step) ?? []),
    ...(signal !== undefined && { signal }),
    ...(means && { means }),
    refused: copies.flatMap(({ receipts }) => receipts).filter(({ step }) => step === 'refused').length,
    claim: await claimOn(home, message, now),
    attempt: (copy?.attempt ?? 0) + 1,
    mailbox: copy?.mailbox ?? null,
  };
}

/** What a reaction asks the author of its message to do. */
export async function meansTo(name: AgentName, home: Home, { thread, parley }: Message): Promise<Meaning | undefined> {
  const means = meaningOf(parley?.signal ?? '');
  if (!means || !isMessageId(thread)) return undefined;
  return (await home.journal.message(thread))?.from === name ? means : undefined;
}

/** The state of an obligation: how it ended, or one of the two open states. */
export function dispositionOf({ state, ended }: Obligation): Disposition | null {
  if (ended) return ended.as;
  return state === 'claimed' || state === 'deferred' ? state : null;
}

/** After the deadline a reader must read the thread before it answers. This receipt proves that it did. */
async function noteRead(whos: readonly Who[], { id, mailbox }: EventView, now?: number): Promise<void> {
  const who = whos.find(({ name }) => name === mailbox);
  if (!who || now === undefined) return;
  const obligation = await who.home.journal.obligation(who.name, id);
  if (!obligation || obligation.ended || now < deadlineOf(obligation)) return;
  const evidence = { by: 'chat.read_thread' };
  await who.home.journal.record(who.name, id, receipt('offered', now, evidence));
}

function isListed({ mailbox, attention, from }: EventView, whos: readonly Who[]): boolean {
  if (mailbox === null && whos.some(({ name }) => name === from)) return false;
  return attention.injection !== 'silent';
}

function isWithin({ message }: HistoryRow, { since, until }: EventFilter): boolean {
  const at = Date.parse(message.ts);
  return (since === undefined || at >= Date.parse(since)) && (until === undefined || at < Date.parse(until));
}

/** Does the message belong to this conversation, or to the thread that the message with this id began? */
function isOf({ message, recipients }: HistoryRow, conversation: string): boolean {
  return conversationOf(message, recipients).id === conversation || rootOf(message) === conversation;
}

function highest(seen: readonly string[]): Step {
  return STEPS.findLast((step) => seen.includes(step)) ?? 'stored';
}

function namesIn(whos: readonly Who[]): Map<Home, AgentName[]> {
  const names = Map.groupBy(whos, ({ home }) => home);
  return new Map([...names].map(([home, here]) => [home, here.map(({ name }) => name)]));
}

async function entered(whos: readonly Who[]): Promise<Home[]> {
  const homes = [...new Set(whos.map((who) => who.home))];
  for (const home of homes) await enterObligations(home);
  return homes;
}

/** How many rows one query reads, and how many one call reads at most, even if few match. */
const BATCH = 50;
export const LOOKED_AT = 5000;

/** The position of a reader in one home. */
export interface PagePosition {
  home: HomeLabel;
  seq: number;
}

/** What to read: a channel, one thread, or else all messages of the named agents, after these positions. */
interface Wanted {
  channel?: string | undefined;
  thread?: MessageId;
  from: readonly PagePosition[];
}

/** The rows of several homes, newest first, each once. Within a home the rows are in order of their sequence numbers. */
export async function* pages(
  homes: readonly Home[],
  names: ReadonlyMap<Home, readonly AgentName[]>,
  wanted: Wanted,
): AsyncGenerator<{ home: Home; row: HistoryRow }> {
  const lists = homes.map((home) => rowsIn(home, names.get(home) ?? [], wanted));
  let looked = 0;
  for await (const { row, list } of merged(lists, (a, b) => a.message.ts > b.message.ts)) {
    const home = homes[list];
    if (home) yield { home, row };
    looked += 1;
    if (looked === LOOKED_AT) return;
  }
}

async function* rowsIn(home: Home, names: readonly AgentName[], wanted: Wanted): AsyncGenerator<HistoryRow, void> {
  const { thread, channel } = wanted;
  const before = wanted.from.find((place) => place.home === home.label)?.seq;
  const parts: Omit<Page, 'limit'>[] =
    thread !== undefined ? [{ thread }] : channel !== undefined ? [{}] : names.map((agent) => ({ agent }));
  const lists = parts.map((page) => rowsOf(home, page, before));
  let last = Infinity;
  for await (const { row } of merged(lists, (a, b) => a.seq > b.seq)) {
    // Two of these agents may have the same message.
    if (row.seq < last && (channel === undefined || row.message.to === channel)) yield row;
    last = row.seq;
  }
}

/** Merges sorted lists. Each row has the number of its list. Of equal rows, that of the first list comes first. */
async function* merged(
  lists: readonly AsyncGenerator<HistoryRow, void>[],
  isBefore: (a: HistoryRow, b: HistoryRow) => boolean,
): AsyncGenerator<{ row: HistoryRow; list: number }> {
  const heads = await Promise.all(lists.map(async (rows) => (await rows.next()).value));
  for (;;) {
    let next: { row: HistoryRow; list: number } | undefined;
    for (const [list, row] of heads.entries()) if (row && (!next || isBefore(row, next.row))) next = { row, list };
    if (!next) return;
    yield next;
    heads[next.list] = (await lists[next.list]?.next())?.value;
  }
}

async function* rowsOf(home: Home, page: Omit<Page, 'limit'>, from?: number): AsyncGenerator<HistoryRow, void> {
  let before = from;
  for (;;) {
    const rows = await home.journal.history({ ...page, before, limit: BATCH });
    yield* rows;
    if (rows.length < BATCH) return;
    before = rows.at(-1)?.seq;
  }
}

/** Where the next page begins: the last row number of each home. */
export function cursorOf(places: readonly PagePosition[]): string {
  const last = new Map(places.map(({ home, seq }) => [home, seq]));
  return [...last].map(([home, seq]) => `${home}.${seq}`).join('-');
}

export function readCursor(cursor: string | undefined): PagePosition[] {
  if (cursor === undefined) return [];
  const places = cursor.split('-').map((part) => /^(parley|bch|relay)\.(\d{1,15})$/.exec(part));
  if (places.includes(null)) throw new Refusal('invalid_request', 'unknown cursor; leave it out to begin again');
  return places.flatMap((found) => (found ? [{ home: found[1] as HomeLabel, seq: Number(found[2]) }] : []));
}
