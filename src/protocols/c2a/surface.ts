import { Refusal } from '../../core/refusal.ts';
import type { Part, SURFACE } from './shapes.ts';
import { BODY_LIMIT } from '../../core/message.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import { ChannelName, isMessageId, SendKey } from '../../core/names.ts';
import type { Described } from '../../core/schema.ts';
import { edit, remove } from './edit.ts';
import { react } from '../../core/obligations/react.ts';
import { send } from '../../core/mail/send.ts';
import type { HostContext, HostPeer } from './context.ts';
import { ConversationOrder, Rate } from './tasks.ts';
import type { Item } from './item.ts';
import { Members } from './members.ts';
import type { Runner } from './runner.ts';
import { SurfaceOutbox } from './show.ts';
import { signalFor, conversationName, messageName, personName } from './platform-names.ts';

type Params<M extends keyof typeof SURFACE> = Described<(typeof SURFACE)[M]>;
type Post = Params<'surface/post'>;

/** Who is said to type for longer than this has gone away. */
const TYPING_MS = 60_000;

/** One surface that is connected. */
export interface Surface {
  wire: HostPeer;
  platform: AgentName;
  workspaceId: string;
  ephemeral: boolean;
  rate: Rate;
  showing: SurfaceOutbox;
}

/**
 * Where chats come in: what people write there becomes mail, under names that are made from the platform's own, so the same message
 * always has the same id. What agents say to them is shown there. spec: host#surface
 */
export class Surfaces {
  readonly #bound = new Map<AgentName, Surface>();
  /** Connections that ended and may still hold something. */
  readonly #ending = new Map<AgentName, Promise<void>>();
  readonly #typing = new Map<string, number>();
  readonly #order: ConversationOrder;
  #lastPost: Promise<void> = Promise.resolve();
  readonly #members: Members;

  constructor(
    readonly context: HostContext,
    readonly runners: () => Iterable<Runner>,
  ) {
    this.#order = new ConversationOrder(context.deps);
    this.#members = new Members(context);
  }

  /** A surface of the same platform takes the place of the one before: that one's connection may be dead. */
  async bind(
    wire: HostPeer,
    { platform, workspaceId, ephemeral }: Params<'surface/bind'>,
  ): Promise<{ platform: string }> {
    if (platform.includes('.')) throw new Refusal('invalid_request', 'a platform has no "." in its name');
    this.#end(this.#bound.get(platform));
    await this.#ending.get(platform);
    const { limits, deps } = this.context;
    const rate = new Rate(deps, {
      perSecond: limits.postsPerSecond,
      atOnce: limits.postsAtOnce,
      waiting: limits.postsWaiting,
    });
    await this.#members.bridge(platform);
    const showing = new SurfaceOutbox(this.context, wire, platform);
    this.#bound.set(platform, { wire, platform, workspaceId, ephemeral, rate, showing });
    showing.ring();
    return { platform };
  }

  gone(wire: HostPeer): void {
    for (const [platform, surface] of this.#bound) {
      if (surface.wire !== wire) continue;
      this.#end(surface);
      this.#bound.delete(platform);
    }
  }

  close(): void {
    for (const surface of this.#bound.values()) this.#end(surface);
  }

  /** The next connection of this platform waits until this one holds nothing. */
  #end(surface: Surface | undefined): void {
    if (surface) this.#ending.set(surface.platform, surface.showing.close());
  }

  all(): Surface[] {
    return [...this.#bound.values()];
  }

  /** The surface at which this agent is a person or bot, if it is connected. */
  of(name: string): Surface | undefined {
    return this.all().find(({ platform }) => name.startsWith(`${platform}.`));
  }

  async post(wire: HostPeer, post: Post): Promise<{ eventId: MessageId; first: boolean }> {
    const surface = this.#on(wire);
    await surface.rate.turn('messages');
    const place = `${surface.platform} ${post.conversation.id}`;
    return this.#order.run(place, post.sequence, () => this.#oneByOne(() => this.#post(surface, post)));
  }

  /** Storing keeps the process busy. Between two posts everybody else has a turn: a tool must not wait for a thousand of them. */
  async #oneByOne<T>(job: () => Promise<T>): Promise<T> {
    const before = this.#lastPost;
    const mine = Promise.withResolvers<void>();
    this.#lastPost = mine.promise;
    await before;
    await new Promise<void>((resolve) => setImmediate(resolve));
    try {
      return await job();
    } finally {
      mine.resolve();
    }
  }

  async #post(surface: Surface, post: Post): Promise<{ eventId: MessageId; first: boolean }> {
    const { workspace, home, now } = this.context.deps;
    const { platform } = surface;
    const { conversation, content } = post;
    const author = await this.#members.person(platform, post.author);
    const id = messageName(platform, post.messageId, { kind: conversation.kind });
    const body = textIn(content);
    const to = conversation.kind === 'dm' ? `@${recipientOf(post)}` : conversationName(conversation.id);
    if (conversation.kind !== 'dm') {
      await this.#members.join(platform, author, conversationName(conversation.id), conversation.private ? '' : body);
    }
    // What a system or a tool says by itself is for information, unless the surface knows better.
    const isStatus = (conversation.kind === 'system' || conversation.kind === 'tool') && post.intent === 'none';
    const said = post.createdAt === undefined ? Infinity : Date.parse(post.createdAt);
    const sent = await send(
      { ...workspace, newId: () => id, givenIds: true, now: () => Math.min(now(), said) },
      author,
      {
        to,
        body,
        priority: post.priority,
        intent: isStatus ? 'status' : post.intent,
        key: SendKey.parse(`surface/${id}`),
        ...(conversation.threadId !== undefined && { thread: messageName(platform, conversation.threadId) }),
        ...(post.obligation && { obligation: post.obligation }),
        ...refsIn(content),
        ...(isStatus && { aim: 'ambient' as const }),
        ...(conversation.private && { private: true as const }),
      },
    );
    // Who joined or left is for the record: no model needs it.
    if (conversation.kind === 'system' && isStatus && sent.first) {
      for (const { mailbox, attention } of sent.copies) {
        await home.journal.reconsider(mailbox, id, { ...attention, injection: 'silent' });
      }
    }
    this.context.stored(sent.copies);
    return { eventId: sent.message.id, first: sent.first };
  }

  async edit(wire: HostPeer, { messageId, content }: Params<'surface/edit'>): Promise<{ eventId: MessageId }> {
    const { platform, rate } = this.#on(wire);
    const { workspace, home } = this.context.deps;
    await rate.turn('messages');
    return this.#order.run(`${platform} edit ${messageId}`, undefined, async () => {
      const { id, version, message } = await this.#current(platform, messageId);
      const body = textIn(content);
      if (body === message.body) return { eventId: id };
      const newId = messageName(platform, messageId, { version: version + 1 });
      const sent = await edit(workspace, message.from as AgentName, home, id, body, newId);
      this.context.stored(sent.copies);
      return { eventId: sent.message.id };
    });
  }

  /** No matter who deletes it, what nobody has answered yet is called off; only its author's deleting discharges an obligation. */
  async delete(wire: HostPeer, { messageId, by }: Params<'surface/delete'>): Promise<{ eventId: MessageId }> {
    const { platform } = this.#on(wire);
    const { workspace, home } = this.context.deps;
    const { id, message } = await this.#current(platform, messageId);
    const who = by === undefined ? (message.from as AgentName) : personName(platform, by);
    const { copies } = await remove(workspace, who, home, id);
    for (const { mailbox } of copies) {
      const obligation = await home.journal.obligation(mailbox, id);
      if (obligation && !obligation.ended) continue;
      for (const runner of this.runners()) {
        const reader = runner.session.whos.find(({ name }) => name === mailbox);
        if (reader) await runner.supersede(reader, id, { withdrawn: true });
      }
    }
    return { eventId: id };
  }

  /** A sign that means nothing here is kept as it is, and does nothing. */
  async react(
    wire: HostPeer,
    reaction: Params<'surface/react'>,
  ): Promise<{ reactionId: MessageId | null; signal: string }> {
    const { platform, rate } = this.#on(wire);
    const { workspace, home } = this.context.deps;
    await rate.turn('reactions');
    const signal = signalFor(reaction);
    const author = await this.#members.person(platform, { id: reaction.author, kind: 'human' });
    const target = await this.#target(platform, reaction.messageId);
    const told = await home.journal.message(target);
    const channel = ChannelName.safeParse(told?.to ?? '');
    if (channel.success && (await this.#members.isShown(platform, channel.data))) {
      await this.#members.join(platform, author, channel.data, '');
    }
    const key = SendKey.parse(`surface/reaction/${reaction.reactionId}`);
    const done = await react(workspace, { name: author, home }, target, { signal, key, recipient: reaction.recipient });
    this.context.stored(done.sent?.copies ?? []);
    return { reactionId: done.sent?.message.id ?? null, signal };
  }

  typing(wire: HostPeer, { conversation, author, on }: Params<'surface/typing'>): void {
    const { platform } = this.#on(wire);
    const name = personName(platform, author);
    const key = `${name} ${conversation}`;
    const now = this.context.deps.now();
    for (const [old, since] of this.#typing) if (since < now - TYPING_MS) this.#typing.delete(old);
    if (on) this.#typing.set(key, now);
    else this.#typing.delete(key);
    this.context.stored();
  }

  /** Since when its author types where it was said. In a DM any place that is no channel of ours will be it. */
  typingSince({ author, message }: Item): number | null {
    const known = [...this.#typing].filter(([key]) => key.startsWith(`${author.name} `));
    for (const [key, since] of known) {
      const place = conversationName(key.slice(author.name.length + 1));
      if (message.to.startsWith('#') ? message.to === place : !this.#members.isChannel(place)) return since;
    }
    return null;
  }

  workspaceOf(platform: string): string {
    return this.all().find((one) => one.platform === platform)?.workspaceId ?? platform;
  }

  /** Something was stored: it may be for people at a surface. */
  ring(): void {
    for (const { showing } of this.#bound.values()) showing.ring();
  }

  #on(wire: HostPeer): Surface {
    const surface = this.all().find((one) => one.wire === wire);
    if (surface) return surface;
    throw new Refusal('no_identity', 'this surface is not bound; call surface/bind first');
  }

  /** The last version of a message that came in from this platform. */
  async #current(platform: AgentName, messageId: string) {
    const { journal } = this.context.deps.home;
    for (const kind of [undefined, 'system', 'tool'] as const) {
      let id = messageName(platform, messageId, { kind });
      let message = await journal.message(id);
      if (!message) continue;
      for (let version = 1; ; version += 1) {
        const next = messageName(platform, messageId, { version: version + 1 });
        const later = await journal.message(next);
        if (!later) return { id, version, message };
        [id, message] = [next, later];
      }
    }
    throw new Refusal('not_found', 'no message came in under that messageId');
  }

  /** What somebody reacts to: a message of the platform, or one of ours by the id under which it was shown. */
  async #target(platform: AgentName, messageId: string): Promise<MessageId> {
    const own = isMessageId(messageId) && (await this.context.deps.home.journal.message(messageId));
    if (own) return own.id;
    try {
      return (await this.#current(platform, messageId)).id;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return messageName(platform, messageId);
    }
  }
}

function textIn(content: readonly Part[]): string {
  const text = content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
  if (text.length <= BODY_LIMIT) return text;
  throw new Refusal('too_large', `a message has at most ${BODY_LIMIT} bytes`);
}

function refsIn(content: readonly Part[]): { refs?: string[] } {
  const refs = content.flatMap((part) => (part.type === 'ref' ? [part.ref] : []));
  return refs.length > 0 ? { refs } : {};
}

function recipientOf({ recipient }: Post): AgentName {
  if (recipient !== undefined) return recipient;
  throw new Refusal('invalid_request', 'name the recipient of a DM');
}
