import { masked } from '../../attention/secrets.ts';
import type { Attention } from '../../protocol/attention.ts';
import type { ChatDeliver } from '../../protocol/host.ts';
import { readMessage } from '../../protocol/message.ts';
import type { Message } from '../../protocol/message.ts';
import { MessageId } from '../../protocol/names.ts';
import { HOST_NAME } from '../../protocol/signal.ts';
import type { Who } from '../workspace.ts';
import { placeOf } from './item.ts';
import type { Item } from './item.ts';
import { pullWith } from './frames.ts';
import type { ProgressLine, Said, Source } from '../../protocol/prompt.ts';
import type { People } from './people.ts';
import type { Session } from './session.ts';

type Link = Pick<NonNullable<Session['link']>, 'capabilities'>;

/** At most one in this time. */
export const DIGEST_MS = 15 * 60 * 1000;
const PAGE = 128;
/** What one digest holds, of each mailbox. */
const MOST = 500;
/** So much text is shown in full. What has no room waits for the next digest. */
const MOST_TEXT = 32_000;

/** What a digest tells of, and which copies are done with by it. */
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

/** What waits for the digest of a session, as one event: where how much was said and by whom. Null if there is nothing. spec: c2a#digest */
export async function gather(session: Session, progress: readonly ProgressLine[]): Promise<Gathered | null> {
  const [first] = session.whos;
  const { link } = session;
  if (!first || !link) return null;
  const found: Noted[] = [];
  for (const who of session.whos) found.push(...(await notesFor(who)));
  const notes = fitting(found);
  if (notes.length === 0 && progress.length === 0) return null;
  const { deps, people } = session.house;
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
    // A digest has no number of its own: its time only grows.
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
  const { ledger } = who.home;
  const notes: Noted[] = [];
  let after = 0;
  while (notes.length < MOST) {
    const page = await ledger.shelf(who.name, after, PAGE, 'digest');
    for (const { seq, text, attention } of page) {
      after = seq;
      const message = readMessage(JSON.parse(text));
      if (message) notes.push({ who, message, attention, seq });
    }
    if (page.length < PAGE) break;
  }
  return notes;
}

/** A guard kept it for this digest: its text is shown here or nowhere. spec: c2a#loops */
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

async function saidIn({ id, from, ts, body }: Message, people: People, link: Link): Promise<Said> {
  const { kind, displayName } = await people.person(from);
  const text = masked(body);
  const rest = text.length - MOST_TEXT;
  const shown =
    rest > 0
      ? `${text.slice(0, MOST_TEXT)}\n… ${rest} more characters, pull with ${pullWith(link.capabilities)}`
      : text;
  return { id, author: { kind, displayName }, at: ts, text: shown };
}

/** Named, or handed work: then the digest is more than news. */
function isForReader({ attention: { directedness, policy } }: Noted): boolean {
  return directedness === 'to_me' && policy !== 'must_not_respond';
}

/** As strong as the strongest that is meant for the reader; otherwise nobody is to answer it. */
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
