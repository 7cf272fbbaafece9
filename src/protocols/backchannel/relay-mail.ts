import { queryOf } from './relay-guards.ts';
import { TOO_MANY_STREAMS } from './relay-phrases.ts';
import type { Workspace, Who } from '../../core/mail/workspace.ts';
import { send } from '../../core/mail/send.ts';
import type { Sent } from '../../core/mail/send.ts';
import { Extras } from '../../core/message.ts';
import type { Draft, Intent, Priority } from '../../core/message.ts';
import { SendKey, shortId, isSenderId, isMessageId } from '../../core/names.ts';
import type { AgentName, MessageId, Scope } from '../../core/names.ts';
import type { Fields } from './relay-body.ts';
import { badRequest, Declined, notYours, NOT_FOUND } from './relay-phrases.ts';
import { ENVELOPE, jsonText, json, SMALL_BODY } from './relay-state.ts';
import type { RelayCall, Relay } from './relay-state.ts';
import { WaitingPages, takeOne } from '../../core/mail/deliver.ts';
import type { Mail } from '../../core/ports/journal.ts';
import { lease, releaseLease, settleLease } from '../../core/mail/lease.ts';
import type { LeaseWanted } from '../../core/mail/lease.ts';
import { Disposition, Evidence } from '../../core/receipt.ts';
import { lookAt } from './room-registry.ts';

/** Accepts a message. The token names the sender; a sender in the request is ignored. spec: relay#send */
export async function sendMessage(relay: Relay, c: RelayCall): Promise<Response> {
  const draft = draftFrom(await relay.fields(c), c.request);
  refuseLargeEnvelope(draft);
  const { name } = c.who;
  const { workspace, quota } = c.room;
  const chosen = idIn(c.request, name, draft);
  const id = chosen !== null && (await isShortIdTaken(workspace, chosen)) ? null : chosen;
  const sent = await quota.within(workspace, (admitting) => sendUnder(id, admitting, name, draft));
  if (sent.first) {
    relay.figures.accepted += 1;
    relay.figures.copies += sent.copies.length;
  }
  return jsonText(c, sent.text ?? JSON.stringify(sent.message), 200, headersFor(relay, sent));
}

/** Sends under the id that the sender chose, unless that names another message already. spec: relay#ids */
async function sendUnder(id: MessageId | null, workspace: Workspace, from: AgentName, draft: Draft): Promise<Sent> {
  if (id === null) return send(workspace, from, draft);
  const sent = await send({ ...workspace, newId: () => id, givenIds: true }, from, draft);
  const { message, first } = sent;
  if (first || (message.from === from && message.parley?.key === draft.key)) return sent;
  return send(workspace, from, draft);
}

/** The id that a client chose. Our clients send it together with a key; any other id is ignored. */
function idIn(request: Request, from: AgentName, { key }: Draft): MessageId | null {
  const text = request.headers.get('x-parley-id');
  return text !== null && key !== undefined && isSenderId(text, from) ? text : null;
}

/** Is the short id in use? People and models name messages by it, so no sender may make it ambiguous. */
async function isShortIdTaken({ homes }: Workspace, id: MessageId): Promise<boolean> {
  const alike = await Promise.all(homes.map(({ journal }) => journal.idsLike(shortId(id))));
  return alike.flat().some((one) => one !== id);
}

/** Refuses too much text besides the body, which has its own limit. spec: relay#limits */
function refuseLargeEnvelope(draft: Draft): void {
  const { body: _body, ...rest } = draft;
  const size = Buffer.byteLength(JSON.stringify(rest));
  if (size <= ENVELOPE) return;
  throw new Declined(
    413,
    `the message has ${size} bytes beside its body, the limit is ${ENVELOPE} — shorten its refs, thread and scope`,
  );
}

function headersFor(relay: Relay, sent: Sent): Record<string, string> | undefined {
  const { keepWaitingMs } = relay.deps.settings;
  if (keepWaitingMs === null && !sent.leftOut) return undefined;
  const headers: Record<string, string> = {};
  if (keepWaitingMs !== null) {
    headers['x-parley-expires'] = new Date(Date.parse(sent.message.ts) + keepWaitingMs).toISOString();
  }
  if (sent.leftOut) headers['x-parley-full'] = sent.leftOut.slice(0, 100).join(', ');
  return headers;
}

/** The draft in a request. Scope, thread and refs are the sender's own words: stored unchanged, never a path, and they need not exist. */
function draftFrom(fields: Fields, request: Request): Draft {
  const { intent, deadline } = extrasIn(fields);
  return {
    to: fields.text('to'),
    body: fields.text('body'),
    // Other values than ours are stored and passed on, as the original does.
    priority: (fields.optionalText('priority') ?? 'normal') as Priority,
    scope: (fields.optionalText('scope') || undefined) as Scope | undefined,
    thread: (fields.optionalText('thread') || undefined) as MessageId | undefined,
    refs: fields.texts('refs'),
    intent,
    deadline,
    key: keyIn(request),
    firstTried: firstTriedIn(request),
  };
}

/** The fields that our clients add. Bad values are dropped, as by a relay that does not know the fields. */
function extrasIn({ values: { intent, deadline } }: Fields): { intent: Intent; deadline: string | undefined } {
  if (intent === undefined && deadline === undefined) return { intent: 'none', deadline: undefined };
  const extras = Extras.safeParse({ v: 1, intent, deadline });
  return extras.success
    ? { intent: extras.data.intent ?? 'none', deadline: extras.data.deadline }
    : { intent: 'none', deadline: undefined };
}

function keyIn(request: Request): SendKey | undefined {
  const text = request.headers.get('idempotency-key');
  if (text === null) return undefined;
  const key = SendKey.safeParse(text);
  if (key.success) return key.data;
  throw badRequest('Idempotency-Key must have 1 to 200 characters, none of them a control character');
}

function firstTriedIn(request: Request): string | undefined {
  const text = request.headers.get('x-parley-first-tried');
  if (text === null) return undefined;
  const at = Date.parse(text);
  if (Number.isNaN(at)) throw badRequest('x-parley-first-tried must be an ISO time');
  return new Date(at).toISOString();
}

/** A larger answer is sent in pieces. */
const WHOLE = 1024 * 1024;
const LONGEST_PAGE = 1000;

/** The name in a path must be the caller's own. spec: relay#inbox */
export function ownMailbox(c: RelayCall): Who {
  const who = c.who;
  const name = decoded(c.path);
  if (name !== who.name) throw new Declined(403, notYours(who.name, name));
  return who;
}

/** The last part of a path. */
export function decoded(path: string): string {
  try {
    return decodeURIComponent(path.slice(path.lastIndexOf('/') + 1));
  } catch (error) {
    throw badRequest(error instanceof Error ? error.message : 'bad escape in the path');
  }
}

/** The waiting messages, in order of arrival. Claims nothing. */
export async function inbox(relay: Relay, c: RelayCall): Promise<Response> {
  const who = ownMailbox(c);
  const query = queryOf(c.request);
  const after = numberIn(query, 'after', 0, Number.MAX_SAFE_INTEGER) ?? 0;
  const limit = numberIn(query, 'limit', 1, LONGEST_PAGE);
  await who.home.directory.seen(who.name);
  await who.home.mailboxes.adopt(who.name);
  const pages = new WaitingPages(who, after);
  if (limit !== undefined) return page(c, pages, limit);
  const texts = await gather(pages, Infinity);
  if (pages.isRead) return jsonText(c, `[${texts.join()}]`);
  return new Response(pieces(pages, texts, relay.registry.stay(c.room)), {
    headers: { 'content-type': 'application/json', 'x-request-id': c.id },
  });
}

/** One page of the inbox. It is shorter than requested if messages are very large; a header says where the next page begins. */
async function page(c: RelayCall, pages: WaitingPages, limit: number): Promise<Response> {
  const texts = await gather(pages, limit);
  // If this page ends exactly at the last message, the next page is empty.
  const next = pages.isRead ? undefined : { 'x-parley-next': String(pages.after) };
  return jsonText(c, `[${texts.join()}]`, 200, next);
}

async function gather(pages: WaitingPages, limit: number): Promise<string[]> {
  const texts: string[] = [];
  let size = 0;
  do {
    const mail: Mail[] = await pages.next(limit - texts.length);
    for (const { text } of mail) {
      texts.push(text);
      size += text.length;
    }
  } while (!pages.isRead && texts.length < limit && size < WHOLE);
  return texts;
}

/** A long inbox as a stream, read as fast as its reader takes it, so that it is never in memory as a whole. */
function pieces(pages: WaitingPages, first: string[], leave: () => void): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let begun = false;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const texts = begun ? await nextTexts(pages, leave) : first;
        const glue = begun && texts.length > 0 ? ',' : '';
        const end = begun && pages.isRead ? ']' : '';
        controller.enqueue(encoder.encode(`${begun ? '' : '['}${glue}${texts.join()}${end}`));
        begun = true;
        if (!end) return;
        controller.close();
        leave();
      },
      cancel: leave,
    },
    { highWaterMark: 0 },
  );
}

async function nextTexts(pages: WaitingPages, leave: () => void): Promise<string[]> {
  try {
    return (await pages.next()).map(({ text }) => text);
  } catch (error) {
    leave();
    throw error;
  }
}

/** Takes one message. Of several racing callers one gets it, the others get null. spec: relay#take */
export async function take(relay: Relay, c: RelayCall): Promise<Response> {
  const fields = await relay.fields(c, SMALL_BODY);
  const { id } = fields.values;
  const keep = fields.optionalFlag('keep');
  const who = c.who;
  // A malformed id names no message and is not looked up. [BC-C1]
  const message = isMessageId(id) ? await takeOne(who, id, { by: 'relay', agent: who.name }, keep) : null;
  if (message) relay.figures.taken += 1;
  return json(c, { message });
}

function numberIn(query: URLSearchParams, name: string, least: number, most: number): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw badRequest(`"${name}" must be a whole number from ${least} to ${most}`);
}

const MOST = 256;
const DEFAULT_MAX = 32;
const DEFAULT_MS = 30_000;
const LONGEST_MS = 60 * 60 * 1000;
const LONGEST_DELAY_MS = 24 * LONGEST_MS;
/** The most characters of evidence: short facts, never a body. */
const EVIDENCE_TEXT = 2000;

/** Leases messages to a reader that settles them later. spec: relay#leases */
export async function leaseMessages(relay: Relay, c: RelayCall): Promise<Response> {
  const fields = await relay.fields(c, SMALL_BODY);
  const ms = fields.optionalNumber('ms', 1000, LONGEST_MS) ?? DEFAULT_MS;
  const wanted = wantedIn(fields);
  const { who } = c;
  await who.home.directory.seen(who.name);
  await who.home.mailboxes.adopt(who.name);
  const { owner, until, copies } = await lease(who, wanted, ms);
  // Messages that are not settled by then wait again.
  if (copies.length > 0) lookAt(c.room, until);
  const messages = copies.map(({ message, attempt }) => ({ message, attempt }));
  return json(c, { lease: owner, until: new Date(until).toISOString(), messages });
}

/** Settles or releases leased messages. A repeat gets the same answer. */
export async function settleMessages(relay: Relay, c: RelayCall): Promise<Response> {
  const fields = await relay.fields(c, SMALL_BODY);
  const owner = fields.text('lease');
  const ids = idsIn(fields) ?? [];
  const outcome = fields.text('outcome');
  const by = evidenceIn(fields);
  if (outcome !== 'done' && outcome !== 'release') throw badRequest('"outcome" must be "done" or "release"');
  const delayMs = fields.optionalNumber('delayMs', 0, LONGEST_DELAY_MS);
  const { who } = c;
  const settlement = { disposition: dispositionIn(fields), by, keep: fields.optionalFlag('keep') };
  // Only a lease that we gave out can be settled here, never a holder's name that a reader made up.
  const isOurs = owner.startsWith('bearer.');
  const over = new Declined(409, 'no longer held under this lease — it ran out or ended otherwise');
  if (!isOurs) throw over;
  if (outcome === 'done') {
    const ended = await settleLease(who, owner, ids, settlement);
    if (ended === null) throw over;
    relay.figures.taken += ended;
  } else {
    if (!(await releaseLease(who, owner, ids, by, delayMs))) throw over;
    if (delayMs) lookAt(c.room, relay.deps.now() + delayMs);
  }
  return json(c, { settled: ids });
}

/** The receipts of a message: of every copy for its sender, of its own copy for a recipient. spec: relay#trace */
export async function trace(c: RelayCall): Promise<Response> {
  const id = decoded(c.path);
  const { name, home } = c.who;
  const found = isMessageId(id) ? await home.journal.trace(id) : null;
  const copies = found?.copies.filter(({ mailbox }) => found.message.from === name || mailbox === name) ?? [];
  if (!found || copies.length === 0) throw new Declined(404, NOT_FOUND);
  return json(c, {
    message: found.message,
    copies: copies.map(({ mailbox, state, attempt, disposition, settledAt, settledBy, receipts }) => ({
      mailbox,
      state,
      attempt,
      disposition,
      settledAt,
      settledBy,
      receipts,
    })),
  });
}

function wantedIn(fields: Fields): LeaseWanted {
  const ids = idsIn(fields);
  if (ids) return { ids };
  return { match: fields.optionalText('match'), max: fields.optionalNumber('max', 1, MOST) ?? DEFAULT_MAX };
}

/** The well-formed ids of a request. Others name no message. */
function idsIn(fields: Fields): MessageId[] | undefined {
  const ids = fields.texts('ids', MOST);
  return ids && [...new Set(ids)].filter(isMessageId);
}

function dispositionIn(fields: Fields): Disposition {
  const text = fields.optionalText('disposition') ?? 'acknowledged';
  const disposition = Disposition.safeParse(text);
  // `claimed` and `deferred` end nothing: a reader who still owes an answer keeps its lease.
  if (disposition.success && text !== 'claimed' && text !== 'deferred') return disposition.data;
  throw badRequest('"disposition" must be responded, acknowledged, ignored, superseded or failed');
}

function evidenceIn(fields: Fields): Evidence {
  const evidence = Evidence.safeParse(fields.values['by'] ?? {});
  if (!evidence.success || JSON.stringify(evidence.data).length > EVIDENCE_TEXT) {
    throw badRequest(`"by" must be an object of short texts, numbers and flags (${EVIDENCE_TEXT} characters in all)`);
  }
  return evidence.data;
}

/** Opens a stream of waiting and arriving messages. spec: relay#events */
export async function events(relay: Relay, c: RelayCall): Promise<Response> {
  const who = ownMailbox(c);
  const { tokenHash } = c;
  await who.home.directory.seen(who.name);
  const after = await lastSeen(who, c.request.headers.get('last-event-id'));
  // Nothing is awaited from here until the stream is open, so racing callers count each other's streams.
  if (relay.listeners.isFull(tokenHash)) throw new Declined(429, TOO_MANY_STREAMS, { 'retry-after': '25' });
  const { request, connections } = c;
  // Between two keep-alives a stream may be silent for longer than the idle limit of a connection.
  connections?.timeout?.(request, 0);
  const cut = (): void => connections?.timeout?.(request, 1);
  const facts = { id: c.id, room: c.room.id, agent: who.name };
  // A stream outlives its request: it must end when its token is revoked or given to another agent.
  const isWelcome = async (): Promise<boolean> => (await who.home.directory.byToken(tokenHash)) === who.name;
  let leave = (): void => {};
  const stream = relay.listeners.open({ who, tokenHash, after, isWelcome, cut }, (error) => {
    leave();
    const why = error instanceof Error ? { error: error.message } : {};
    relay.deps.log('listener_closed', { ...facts, ...why });
  });
  leave = relay.registry.stay(c.room);
  relay.deps.log('listener_open', facts);
  return new Response(stream, {
    headers: {
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache',
      connection: 'keep-alive',
      // Proxies must not buffer a stream.
      'x-accel-buffering': 'no',
      'x-request-id': facts.id,
    },
  });
}

/** The number after which a reconnecting reader continues. A number that this journal never gave out is from an earlier one: send all. */
async function lastSeen(who: Who, text: string | null): Promise<number> {
  if (text === null || !/^\d{1,16}$/.test(text)) return 0;
  const after = Number(text);
  return after <= (await who.home.journal.newest()) ? after : 0;
}
