import { DEADLINE_MS } from '../../attention/ladder.ts';
import { masked } from '../../attention/secrets.ts';
import { topicOf } from '../../attention/topic.ts';
import type { Capabilities, ChatDeliver, Knock, Part } from '../../protocol/host.ts';
import type { Message, Obligation } from '../../protocol/message.ts';
import { isMessageId } from '../../protocol/names.ts';
import { rootOf } from '../conversation.ts';
import type { Who } from '../workspace.ts';
import { meansTo, readThread } from '../events.ts';
import type { EventView } from '../events.ts';
import { visible } from '../sight.ts';
import { idsOf, isUnseen, lastOf, saidAt } from './item.ts';
import type { Group, Item } from './item.ts';
import type { People } from './people.ts';
import type { Said, Window } from '../../protocol/prompt.ts';
import { HERE, platformOf } from './source.ts';

/** Root and the last six of a thread; the event itself is one more. */
const WINDOW = 7;

/** What a frame needs to know beside its group. */
export interface Framing {
  sessionId: string;
  whos: readonly Who[];
  capabilities: Capabilities;
  people: People;
  now: number;
  /** The workspace of a platform, where a surface of it is bound. */
  workspaceOf: (platform: string) => string;
}

/** The parameters of `chat/deliver` for a group, without its prompt. spec: host#deliver */
export async function frameOf(group: Group, framing: Framing): Promise<ChatDeliver> {
  const item = lastOf(group);
  const { message, attention, conversation, author, who } = item;
  const platform = platformOf(message);
  const recipient = await framing.people.person(who.name);
  const isKnock = group.mode === 'notify';
  return {
    sessionId: framing.sessionId,
    eventId: message.id,
    source: { platform, workspaceId: platform === HERE ? who.home.label : framing.workspaceOf(platform) },
    conversation,
    author: { id: author.name, kind: author.kind, displayName: author.displayName },
    target: {
      mentions: await mentionsOf(group, framing.people),
      recipient: `${recipient.kind}:${who.name}`,
      directedness: attention.directedness,
    },
    ...(isKnock ? { knock: knockOf(group, framing) } : { content: group.items.flatMap(partsOf) }),
    timing: { createdAt: new Date(saidAt(item, framing.now)).toISOString(), sequence: item.seq },
    attention: {
      policy: attention.policy,
      reason: attention.reason,
      priority: message.priority === 'urgent' ? 'urgent' : 'normal',
      deadlineMs: deadlineMs(message),
    },
    injection: {
      mode: group.mode,
      context: !isKnock && !isUnseen(group) && hasWindow(item) ? 'thread_window' : 'none',
      role: 'user',
      ...(group.interrupt && { interrupt: true }),
    },
    reliability: { attempt: item.attempts + 1, idempotencyKey: `${message.id}:${who.name}` },
    ...(message.parley?.obligation && { obligation: blockOf(message.parley.obligation) }),
    ...(await reactionOf(item)),
    ...(group.items.length > 1 && { merged: idsOf(group) }),
    ...(group.returns > 0 && { returns: group.returns }),
  };
}

/** Of a reaction: what it is about, and what it says to do, where that is the reader's own message. */
async function reactionOf({ message, who }: Item): Promise<Pick<ChatDeliver, 'reaction'>> {
  const { signal } = message.parley ?? {};
  if (signal === undefined || !isMessageId(message.thread)) return {};
  const means = await meansTo(who.name, who.home, message);
  return { reaction: { target: message.thread, signal, ...(means && { means }) } };
}

/** How long its reader has, or how long it is news, from when it was said (ms). */
export function deadlineMs(message: Message): number {
  const { deadline } = message.parley ?? {};
  return deadline === undefined ? DEADLINE_MS : Math.max(1, Date.parse(deadline) - Date.parse(message.ts));
}

/** What a knock says: not a word of the body. spec: c2a#knock */
export function knockOf(group: Group, framing: Pick<Framing, 'capabilities' | 'now'>): Knock {
  const item = lastOf(group);
  const { message, attention, conversation, author } = item;
  const { signal, intent = 'none' } = message.parley ?? {};
  const where = conversation.kind === 'thread' ? conversation.threadId : conversation.id;
  const parts = group.items.flatMap(partsOf);
  return {
    from: `${author.kind}:${author.name}`,
    where: `${conversation.kind}:${where ?? conversation.id}`,
    directedness: attention.directedness,
    policy: attention.policy,
    priority: message.priority === 'urgent' ? 'urgent' : 'normal',
    topic: topicOf({
      intent,
      body: message.body,
      thread: message.thread !== undefined,
      ...(signal !== undefined && { signal }),
      ...(message.refs && { refs: message.refs }),
    }),
    pullWith: pullWith(framing.capabilities),
    ageMs: framing.now - saidAt(item, framing.now),
    parts: Object.fromEntries(
      [...Map.groupBy(parts, ({ type }) => type)].map(([type, several]) => [type, several.length]),
    ),
  };
}

/** The tool that reads the rest, as this session knows it. */
export function pullWith({ chatTools }: Pick<Capabilities, 'chatTools'>): string {
  return chatTools.readThread ? 'chat.read_thread' : 'chat.list_events';
}

/** What was said in the thread before an event, as far as its reader may see it. */
export async function windowOf(group: Group, framing: Framing): Promise<Window | undefined> {
  const item = lastOf(group);
  if (item.message.thread === undefined) return undefined;
  const own = new Set<string>(idsOf(group));
  const { messages, earlier } = await readThread([item.who], { event: item.message.id }, { limit: WINDOW + own.size });
  const before = messages.filter(({ id, seq }) => !own.has(id) && seq < item.seq);
  const root = await rootBefore(item, before);
  const said = await Promise.all([...(root ? [root] : []), ...before].map((one) => saidIn(one, framing.people)));
  return { said, earlier: Math.max(0, earlier - (root ? 1 : 0)), pullWith: pullWith(framing.capabilities) };
}

type Spoken = Pick<EventView, 'id' | 'from' | 'at' | 'body'>;

/** The message that opened the thread, where the last ones do not reach back to it. */
async function rootBefore({ message, who }: Item, before: readonly EventView[]): Promise<Spoken | null> {
  const root = rootOf(message);
  if (root === message.id || before.some(({ id }) => id === root)) return null;
  try {
    const seen = await visible([who], root);
    return { id: seen.message.id, from: seen.message.from, at: seen.message.ts, body: seen.message.body };
  } catch {
    // Not here, or not for this reader.
    return null;
  }
}

async function saidIn({ id, from, at, body = '' }: Spoken, people: People): Promise<Said> {
  const { kind, displayName } = await people.person(from);
  return { id, author: { kind, displayName }, at, text: masked(body) };
}

/** A thread around it, or a call by name, which usually has one. */
function hasWindow({ message, attention }: Item): boolean {
  return message.thread !== undefined || attention.reason === 'direct_mention';
}

async function mentionsOf(group: Group, people: People): Promise<string[]> {
  const called = await Promise.all(group.items.map(({ message }) => people.called(message.body)));
  return [...new Set(called.flat())];
}

function blockOf(obligation: Obligation): Obligation {
  const { defaultAction } = obligation;
  return defaultAction === undefined ? obligation : { ...obligation, defaultAction: masked(defaultAction) };
}

/** A message as typed parts. What looks like a secret is masked. */
export function partsOf({ message }: Pick<Item, 'message'>): Part[] {
  return [
    { type: 'text' as const, text: masked(message.body) },
    ...(message.refs ?? []).map((ref) => ({ type: 'ref' as const, ref: masked(ref) })),
  ];
}
