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

/** How many messages of a thread are read: the last six and the event itself. The root is added. */
const WINDOW = 7;

/** What a frame needs besides its group. */
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

/** The target of a reaction and, if the target is the reader's own message, the reaction's meaning. */
async function reactionOf({ message, who }: Item): Promise<Pick<ChatDeliver, 'reaction'>> {
  const { signal } = message.parley ?? {};
  if (signal === undefined || !isMessageId(message.thread)) return {};
  const means = await meansTo(who.name, who.home, message);
  return { reaction: { target: message.thread, signal, ...(means && { means }) } };
}

/** The fields that the draft of 2026-08-11 adds: all parties with name and kind, and a reaction's own id and actor. spec: host#flat */
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

/** How long a reader has to answer, or how long the message is news, from when it was sent (ms). */
export function deadlineMs(message: Message): number {
  const { deadline } = message.parley ?? {};
  return deadline === undefined ? DEADLINE_MS : Math.max(1, Date.parse(deadline) - Date.parse(message.ts));
}

/** The facts of a knock, without the text. spec: c2a#knock */
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

/** The tool of this session that reads the rest. */
export function pullWith({ chatTools }: Pick<Capabilities, 'chatTools'>): string {
  return chatTools.readThread ? 'chat.read_thread' : 'chat.list_events';
}

/** The messages of the thread before an event that its reader may see. */
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

/** The first message of the thread, unless the window has it already. */
async function rootBefore({ message, who }: Item, before: readonly EventView[]): Promise<Spoken | null> {
  const root = rootOf(message);
  if (root === message.id || before.some(({ id }) => id === root)) return null;
  try {
    const seen = await visible([who], root);
    return { id: seen.message.id, from: seen.message.from, at: seen.message.ts, body: seen.message.body };
  } catch {
    // The message does not exist here, or this reader may not see it.
    return null;
  }
}

async function saidIn({ id, from, at, body = '' }: Spoken, people: ChatPeople): Promise<PromptMessage> {
  const { kind, displayName } = await people.person(from);
  return { id, author: { kind, displayName }, at, text: masked(body) };
}

/** Does the event have a thread around it, or mention the reader? A mention usually has one. */
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

/** Agents with this role may interrupt the agents that they lead. */
const LEAD = 'lead' as AgentName;
/** The most names in one text that are looked up. */
const MENTIONS = 20;

/** Looks up the people, agents and platforms that frames name. */
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

  /** The display name of an agent, unless another agent has it as its name: a header could not tell the two apart. */
  async #nameShown(name: string, called = name): Promise<string> {
    const plain = called.normalize('NFKC').replace(/^@/, '').trim();
    for (const other of new Set([plain, plain.toLowerCase()])) {
      if (other !== name && (await this.#record(other))) return name;
    }
    return called;
  }

  /** The platform and workspace whose people and messages have names that begin with `origin`. */
  async source(origin: string): Promise<{ platform: string; workspaceId: string }> {
    const { platform = origin, workspaceId = origin } =
      (await this.#record(bridgeName(origin as AgentName)))?.parley?.surface ?? {};
    return { platform, workspaceId };
  }

  /** The agents, people and roles that a message mentions, as `agent:name`, `human:name` and `role:name`. */
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
