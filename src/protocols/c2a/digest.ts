import { masked } from '../../core/attention/secrets.ts';
import type { Attention } from '../../core/attention/attention.ts';
import type { ChatDeliver } from './shapes.ts';
import { readMessage } from '../../core/message.ts';
import type { Message } from '../../core/message.ts';
import { MessageId } from '../../core/names.ts';
import { HOST_NAME } from '../../core/signal.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { placeOf, keyOf } from './item.ts';
import type { Item } from './item.ts';
import { pullWith } from './frames.ts';
import type { ProgressLine, PromptMessage, Source } from './prompt.ts';
import type { ChatPeople } from './frames.ts';
import type { HostSession } from './session.ts';
import { HOLD_MS } from './context.ts';
import type { Timer, HostContext } from './context.ts';

type Link = Pick<NonNullable<HostSession['link']>, 'capabilities'>;

/** At most one digest in this time. */
export const DIGEST_MS = 15 * 60 * 1000;
const PAGE = 128;
/** The most messages of each mailbox in one digest. */
const MOST = 500;
/** How many characters of text one digest shows. Messages that do not fit wait for the next. */
const MOST_TEXT = 32_000;

/** The content of a digest, and the copies that it settles. */
export interface Gathered {
  items: Item[];
  params: ChatDeliver;
}

interface Noted {
  who: Who;
  message: Message;
  attention: Attention;
  seq: number;
}

/** A session's digest as one event: per channel, how many messages and from whom. Null if there is nothing. spec: c2a#digest */
export async function gather(session: HostSession, progress: readonly ProgressLine[]): Promise<Gathered | null> {
  const [first] = session.whos;
  const { link } = session;
  if (!first || !link) return null;
  const found: Noted[] = [];
  for (const who of session.whos) found.push(...(await notesFor(who)));
  const notes = fitting(found);
  if (notes.length === 0 && progress.length === 0) return null;
  const { deps, people } = session.context;
  const now = deps.now();
  const isMeant = notes.some(isForReader);
  const policy = policyOf(notes);
  const since = Math.min(
    now,
    ...notes.map(({ message }) => Date.parse(message.ts)),
    ...(notes.length ? [] : [session.digestAt]),
  );
  const said = await Promise.all(notes.filter(isShown).map(({ message }) => saidIn(message, people, link)));
  const prompt = deps.render.digest({
    said,
    policy,
    since: new Date(Number.isFinite(since) ? since : now).toISOString(),
    until: new Date(now).toISOString(),
    sources: sourcesIn(notes),
    pullWith: pullWith(link.capabilities),
    progress: progress.map((line) => ({
      ...line,
      ...(line.message !== undefined && { message: masked(line.message) }),
    })),
  });
  const last = Math.max(0, ...notes.map(({ seq }) => seq));
  const id = MessageId.parse(`digest.${session.id}.${notes.length > 0 ? last : now}`);
  const items: Item[] = [];
  for (const { who, message, attention, seq } of notes) {
    const author = await people.person(message.from);
    items.push({
      who,
      message,
      attention,
      seq,
      author,
      conversation: placeOf(message, who),
      mode: 'digest',
      attempts: 0,
      held: false,
    });
  }
  const params: ChatDeliver = {
    sessionId: session.id,
    eventId: id,
    source: { platform: 'parley', workspaceId: first.home.label },
    conversation: { id: `digest:${session.id}`, kind: 'system' },
    author: { id: HOST_NAME, kind: 'system', displayName: 'Parley' },
    target: { mentions: [], recipient: `agent:${first.name}`, directedness: isMeant ? 'to_me' : 'ambient' },
    content: [{ type: 'text', text: prompt }],
    // A digest has no sequence number: its time serves as one.
    timing: { createdAt: new Date(now).toISOString(), sequence: now },
    attention: { policy, reason: 'digest', priority: 'normal', deadlineMs: DIGEST_MS },
    injection: { mode: 'digest', context: 'none', role: 'user' },
    reliability: { attempt: 1, idempotencyKey: `${id}:${first.name}` },
    ...(notes.length > 0 && { merged: notes.map(({ message }) => message.id) }),
    prompt,
  };
  return { items, params };
}

/** The copies of one mailbox that are for the digest, oldest first. */
async function notesFor(who: Who): Promise<Noted[]> {
  const { journal } = who.home;
  const notes: Noted[] = [];
  let after = 0;
  while (notes.length < MOST) {
    const page = await journal.waitingCopies(who.name, after, PAGE, 'digest');
    for (const { seq, text, attention } of page) {
      after = seq;
      const message = readMessage(JSON.parse(text));
      if (message) notes.push({ who, message, attention, seq });
    }
    if (page.length < PAGE) break;
  }
  return notes;
}

/** A loop guard kept this message for the digest: no other place shows its text. spec: c2a#loops */
function isShown({ attention }: Noted): boolean {
  return attention.reason === 'loop';
}

function fitting(notes: readonly Noted[]): Noted[] {
  let text = 0;
  return notes.filter((note) => {
    const isFirst = text === 0;
    if (isShown(note)) text += note.message.body.length;
    return isFirst || !isShown(note) || text <= MOST_TEXT;
  });
}

async function saidIn({ id, from, ts, body }: Message, people: ChatPeople, link: Link): Promise<PromptMessage> {
  const { kind, displayName } = await people.person(from);
  const text = masked(body);
  const rest = text.length - MOST_TEXT;
  const shown =
    rest > 0
      ? `${text.slice(0, MOST_TEXT)}\n… ${rest} more characters, pull with ${pullWith(link.capabilities)}`
      : text;
  return { id, author: { kind, displayName }, at: ts, text: shown };
}

/** Is the reader named or asked to do something? */
function isForReader({ attention: { directedness, policy } }: Noted): boolean {
  return directedness === 'to_me' && policy !== 'must_not_respond';
}

/** The strongest policy among the messages for the reader; without such a message, `must_not_respond`. */
function policyOf(notes: readonly Noted[]): Attention['policy'] {
  const meant = notes.filter(isForReader).map(({ attention }) => attention.policy);
  return (
    (['must_respond', 'may_respond', 'ack_only'] as const).find((policy) => meant.includes(policy)) ??
    'must_not_respond'
  );
}

function sourcesIn(notes: readonly Noted[]): Source[] {
  const streams = Map.groupBy(notes, ({ message, who }) => placeOf(message, who).id);
  return [...streams].map(([stream, said]) => ({
    stream,
    count: said.length,
    from: [...new Set(said.map(({ message }) => message.from))],
    forYou: said.filter(isForReader).length,
  }));
}

const FIRST_WAIT_MS = 10_000;
const LONGEST_WAIT_MS = 60_000;

/** A digest that was sent and has no answer yet. */
interface Out {
  gathered: Gathered;
  timer: Timer | null;
}

/**
 * Sends one digest at a time, at a boundary of a turn, at most every quarter of an hour. Its messages are held meanwhile. When the
 * harness has accepted the digest, messages that want no answer are settled and the rest stays open. If the digest is lost, all of them
 * wait again.
 */
export class Digests {
  #out: Out | null = null;

  constructor(
    readonly context: HostContext,
    readonly session: HostSession,
  ) {}

  get nextAt(): number {
    return this.session.digestAt + DIGEST_MS;
  }

  /** Sends a digest if one is due and there is something to put in it. */
  async offer(): Promise<void> {
    const { session, context } = this;
    const now = context.deps.now();
    if (this.#out || !session.link?.capabilities.injection.digest || now < this.nextAt) return;
    const gathered = await gather(session, await context.progressAround(session, session.digestAt));
    session.digestAt = now;
    if (!gathered) return;
    gathered.items = await this.#take(gathered.items);
    this.#out = { gathered, timer: null };
    this.#send(1);
  }

  /** The connection is gone: the digest's messages wait again. */
  async hangUp(): Promise<void> {
    const out = this.#out;
    if (!out) return;
    this.#out = null;
    out.timer?.cancel();
    this.session.digestAt = -Infinity;
    for (const { who, message } of out.gathered.items) {
      const claim = { mailbox: who.name, owner: this.session.owner };
      await who.home.mailboxes.release(claim, [message.id], { because: 'the digest did not arrive' });
    }
  }

  async #take(items: Item[]): Promise<Item[]> {
    const taken: Item[] = [];
    for (const [who, mine] of Map.groupBy(items, (item) => item.who)) {
      const ids = mine.map(({ message }) => message.id);
      const claim = await who.home.mailboxes.claim(who.name, ids, { ms: HOLD_MS, bearer: this.session.holder });
      const won = new Set(claim.copies.map(({ message }) => message.id));
      taken.push(...mine.filter(({ message }) => won.has(message.id)).map((item) => ({ ...item, held: true })));
    }
    return taken;
  }

  #send(attempt: number): void {
    const out = this.#out;
    const { link } = this.session;
    if (!out || !link) return;
    const { params } = out.gathered;
    if (link.capabilities.delivery.ack && link.capabilities.delivery.redelivery) {
      const wait = Math.min(FIRST_WAIT_MS * 2 ** (attempt - 1), LONGEST_WAIT_MS);
      out.timer = this.context.deps.after(wait, () => this.#send(attempt + 1));
    }
    const reliability = { ...params.reliability, attempt };
    void link.wire.deliver({ ...params, reliability }).then(
      () => this.context.tasks.run('digest', () => this.#accepted(out)),
      () => {},
    );
  }

  async #accepted(out: Out): Promise<void> {
    if (this.#out !== out) return;
    this.#out = null;
    out.timer?.cancel();
    for (const item of out.gathered.items) {
      if (item.attention.policy !== 'must_not_respond') this.session.open.set(keyOf(item), item);
      else await this.session.end(item, 'ignored', { digest: out.gathered.params.eventId });
    }
  }
}

/** The most progress tokens remembered for one session. */
const MOST_PROGRESS = 50;

/** Does this message ask how far the work is? Only then a model sees progress. spec: host#progress */
export function asksForStatus(body: string): boolean {
  return body.length < 500 && /\b(?:status|progress|how far|how's it going|how is it going|eta)\b/i.test(body);
}

/** Remembers the latest progress of each token. */
export function keepProgress(session: HostSession, progress: Parameters<HostSession['progress']['set']>[1]): void {
  session.progress.delete(progress.progressToken);
  session.progress.set(progress.progressToken, progress);
  const [oldest] = session.progress.size > MOST_PROGRESS ? session.progress.keys() : [];
  if (oldest !== undefined) session.progress.delete(oldest);
}

/** The progress that a session reported since `since`. */
export function linesOf(session: HostSession, since: number): ProgressLine[] {
  const from = session.whos[0]?.name ?? session.id;
  return [...session.progress.values()]
    .filter(({ at }) => at >= since)
    .map(({ progressToken: token, progress, total, message }) => ({ from, token, progress, total, message }));
}

/** The progress of the other sessions that share a channel with this one. */
export async function linesAround(
  session: HostSession,
  all: Iterable<HostSession>,
  since: number,
): Promise<ProgressLine[]> {
  const mine = await channelsOf(session);
  const lines: ProgressLine[] = [];
  for (const other of all) {
    if (other === session || linesOf(other, since).length === 0) continue;
    if (!(await channelsOf(other)).isDisjointFrom(mine)) lines.push(...linesOf(other, since));
  }
  return lines;
}

async function channelsOf({ record, whos }: HostSession): Promise<Set<string>> {
  const channels = new Set<string>(record.streams);
  for (const { name, home } of whos) {
    for (const channel of (await home.directory.get(name))?.subscriptions ?? []) channels.add(channel);
  }
  return channels;
}
