import { DEADLINE_MS } from '../../core/obligations/rules.ts';
import { masked } from '../../core/attention/secrets.ts';
import { topicOf } from '../../core/attention/topic.ts';
import type { Capabilities, ChatDeliver, Knock, Party, ProtocolVersion } from './shapes.ts';
import type { Message, Blocking } from '../../core/message.ts';
import { isMessageId, AgentName } from '../../core/names.ts';
import { rootOf } from '../../core/mail/conversation.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { meansTo, readThread } from '../../core/history/events.ts';
import type { EventView } from '../../core/history/events.ts';
import { visible } from '../../core/history/sight.ts';
import { idsOf, isUnseen, lastOf, saidAt } from './item.ts';
import type { Group, Item } from './item.ts';
import type { PromptMessage, Window } from './prompt.ts';
import { bridgeName, HERE, originOf } from './platform-names.ts';
import { partsOf } from './content.ts';
import { calledIn } from '../../core/attention/text.ts';
import { HOST_NAME } from '../../core/signal.ts';
import type { AgentRecord } from '../../core/ports/directory.ts';
import type { HostDeps, Person } from './context.ts';

/** Root and the last six of a thread; the event itself is one more. */
const WINDOW = 7;

/** What a frame needs to know beside its group. */
export interface Framing {
  sessionId: string;
  whos: readonly Who[];
  capabilities: Capabilities;
  people: ChatPeople;
  version: ProtocolVersion;
  now: number;
}

/** The parameters of `chat/deliver` for a group, without its prompt. spec: host#deliver */
export async function frameOf(group: Group, framing: Framing): Promise<ChatDeliver> {
  const item = lastOf(group);
  const { message, attention, conversation, author, who } = item;
  const origin = originOf(message);
  const recipient = await framing.people.person(who.name);
  const isKnock = group.mode === 'notify';
  return {
    sessionId: framing.sessionId,
    eventId: message.id,
    source: origin === HERE ? { platform: HERE, workspaceId: who.home.label } : await framing.people.source(origin),
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
    ...(framing.version === '2026-08-11' && (await partiesOf(group, framing))),
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

/** What the draft of 2026-08-11 adds: everybody concerned by name and kind, and a reaction as an event in its own right. spec: host#flat */
async function partiesOf(group: Group, framing: Framing): Promise<Partial<ChatDeliver>> {
  const item = lastOf(group);
  const { message, attention, who } = item;
  const { people } = framing;
  const createdAt = new Date(saidAt(item, framing.now)).toISOString();
  const isAddressed = attention.directedness === 'to_me' || attention.directedness === 'to_my_role';
  const called = (await mentionsOf(group, people)).flatMap((name) => /^(?:human|agent):(.*)$/.exec(name)?.[1] ?? []);
  const names = [...new Set([...(isAddressed ? [who.name as string] : []), ...called])];
  const { obligation, recipient } = message.parley ?? {};
  const { reaction } = await reactionOf(item);
  const delegate = obligation?.delegate;
  return {
    createdAt,
    recipients: await Promise.all(names.map((name) => people.party(name))),
    ...(obligation && {
      obligation: { ...blockOf(obligation), ...(delegate && { dischargeDelegate: await people.party(delegate) }) },
    }),
    ...(reaction && {
      reaction: {
        ...reaction,
        reactionId: message.id,
        targetEventId: reaction.target,
        createdAt,
        actor: await people.party(message.from),
        ...(recipient && { recipient: await people.party(recipient) }),
      },
    }),
  };
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
  const { signal, intent = 'none', obligation } = message.parley ?? {};
  const { defaultAction } = obligation ?? {};
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
    ...(defaultAction !== undefined && { defaultAction: masked(defaultAction) }),
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

async function saidIn({ id, from, at, body = '' }: Spoken, people: ChatPeople): Promise<PromptMessage> {
  const { kind, displayName } = await people.person(from);
  return { id, author: { kind, displayName }, at, text: masked(body) };
}

/** A thread around it, or a call by name, which usually has one. */
function hasWindow({ message, attention }: Item): boolean {
  return message.thread !== undefined || attention.reason === 'direct_mention';
}

async function mentionsOf(group: Group, people: ChatPeople): Promise<string[]> {
  const called = await Promise.all(group.items.map(({ message }) => people.called(message)));
  return [...new Set(called.flat())];
}

function blockOf(obligation: Blocking): Blocking {
  const { defaultAction } = obligation;
  return defaultAction === undefined ? obligation : { ...obligation, defaultAction: masked(defaultAction) };
}

/** Who has this role may interrupt those whom it leads. */
const LEAD = 'lead' as AgentName;
/** How many names in one text are looked up. */
const MENTIONS = 20;

/** Who is who, for frames. */
export class ChatPeople {
  constructor(readonly deps: Pick<HostDeps, 'home'>) {}

  async person(name: string): Promise<Person> {
    if (name === HOST_NAME) return { name, kind: 'system', displayName: 'Parley', isLead: false };
    const parley = (await this.#record(name))?.parley;
    return {
      name,
      kind: parley?.kind ?? 'agent',
      displayName: await this.#nameShown(name, parley?.displayName),
      isLead: parley?.roles.includes(LEAD) ?? false,
    };
  }

  async party(name: string): Promise<Party> {
    const { kind, displayName } = await this.person(name);
    return { id: name, kind, displayName };
  }

  /** What somebody calls itself, unless another has that for a name: in a header the two could not be told apart. */
  async #nameShown(name: string, called = name): Promise<string> {
    const plain = called.normalize('NFKC').replace(/^@/, '').trim();
    for (const other of new Set([plain, plain.toLowerCase()])) {
      if (other !== name && (await this.#record(other))) return name;
    }
    return called;
  }

  /** The platform and workspace whose people and messages have this name before theirs. */
  async source(origin: string): Promise<{ platform: string; workspaceId: string }> {
    const { platform = origin, workspaceId = origin } =
      (await this.#record(bridgeName(origin as AgentName)))?.parley?.surface ?? {};
    return { platform, workspaceId };
  }

  /** The agents, people and roles that a message calls, as `agent:name`, `human:name` and `role:name`. */
  async called(message: Message): Promise<string[]> {
    const called: string[] = [];
    for (const name of calledIn(message).slice(0, MENTIONS)) {
      const known = AgentName.safeParse(name);
      if (!known.success) continue;
      const record = await this.#record(name);
      if (record) called.push(`${record.parley?.kind ?? 'agent'}:${name}`);
      else if ((await this.deps.home.directory.members(known.data)).length > 0) called.push(`role:${name}`);
    }
    return called;
  }

  async #record(name: string): Promise<AgentRecord | null> {
    const agent = AgentName.safeParse(name);
    return agent.success ? this.deps.home.directory.get(agent.data) : null;
  }
}
