import { calledIn } from '../../core/attention/text.ts';
import { Refusal } from '../../core/refusal.ts';
import type { SURFACE } from './shapes.ts';
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
import { contentOf, isSameContent } from './content.ts';
import type { ChatContent } from './content.ts';
import { MessageIds } from './message-ids.ts';
import type { Located } from './message-ids.ts';
import { signalFor, conversationName, personName } from './platform-names.ts';
import type { ChatOrigin } from './platform-names.ts';

type Params<M extends keyof typeof SURFACE> = Described<(typeof SURFACE)[M]>;
type Post = Params<'surface/post'>;

/** A typing notice older than this no longer counts. */
const TYPING_MS = 60_000;

/** One connected surface: one workspace of a platform. */
export interface Surface {
  wire: HostPeer;
  origin: ChatOrigin;
  ephemeral: boolean;
  rate: Rate;
  showing: SurfaceOutbox;
}

/**
 * The connected surfaces. A chat message becomes mail whose id is made from the platform's own id, so the same message always has the same
 * id. Mail of agents to people there is shown at the surface. spec: host#surface
 */
export class Surfaces {
  readonly #bound = new Map<AgentName, Surface>();
  /** Connections that ended and may still hold messages. */
  readonly #ending = new Map<AgentName, Promise<void>>();
  readonly #typing = new Map<string, { since: number; author: AgentName; origin: ChatOrigin; conversation: string }>();
  readonly #order: ConversationOrder;
  #lastPost: Promise<void> = Promise.resolve();
  readonly #members: Members;
  readonly #ids: MessageIds;

  constructor(
    readonly context: HostContext,
    readonly runners: () => Iterable<Runner>,
  ) {
    this.#order = new ConversationOrder(context.deps);
    this.#members = new Members(context);
    this.#ids = new MessageIds(context.deps.home);
  }

  /** A new connection of a workspace replaces the earlier one, which may be dead. */
  async bind(wire: HostPeer, { platform, workspaceId, ephemeral }: Params<'surface/bind'>): Promise<ChatOrigin> {
    if (platform.includes('.')) throw new Refusal('invalid_request', 'a platform has no "." in its name');
    const bound = this.all().find((one) => one.wire === wire);
    if (bound && (bound.origin.platform !== platform || bound.origin.workspaceId !== workspaceId))
      throw new Refusal(
        'invalid_request',
        'this connection is bound to another workspace; open one for each workspace',
      );
    const origin = await this.#members.origin(platform, workspaceId);
    this.#end(this.#bound.get(origin.name));
    await this.#ending.get(origin.name);
    const { limits, deps } = this.context;
    const rate = new Rate(deps, {
      perSecond: limits.postsPerSecond,
      atOnce: limits.postsAtOnce,
      waiting: limits.postsWaiting,
    });
    const showing = new SurfaceOutbox(this.context, wire, origin);
    this.#bound.set(origin.name, { wire, origin, ephemeral, rate, showing });
    showing.ring();
    return origin;
  }

  gone(wire: HostPeer): void {
    for (const [name, surface] of this.#bound) {
      if (surface.wire !== wire) continue;
      this.#end(surface);
      this.#bound.delete(name);
    }
  }

  close(): void {
    for (const surface of this.#bound.values()) this.#end(surface);
  }

  /** Ends a connection. The next one of this workspace waits until this one holds no message. */
  #end(surface: Surface | undefined): void {
    if (surface) this.#ending.set(surface.origin.name, surface.showing.close());
  }

  all(): Surface[] {
    return [...this.#bound.values()];
  }

  /** The surface at which this agent is a person or bot, if it is connected. */
  of(name: string): Surface | undefined {
    return this.all().find(({ origin }) => name.startsWith(`${origin.name}.`));
  }

  async post(wire: HostPeer, post: Post): Promise<{ eventId: MessageId; first: boolean }> {
    const surface = this.#on(wire);
    await surface.rate.turn('messages');
    const place = `${surface.origin.name} ${post.conversation.id}`;
    return this.#order.run(place, post.sequence, () => this.#oneByOne(() => this.#post(surface, post)));
  }

  /** Runs one post at a time and yields between two, so that a tool call does not wait for a thousand posts. */
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
    const { origin } = surface;
    const { conversation } = post;
    const author = await this.#members.person(origin, post.author);
    const id = await this.#ids.posted(origin, post.messageId, conversation, author);
    const content = await this.#contentOf(origin, post);
    const isDm = conversation.kind === 'dm';
    const recipient = isDm ? recipientOf(post) : null;
    const channel = isDm ? null : conversationName(origin, conversation.id);
    if (channel)
      await this.#members.join(
        origin,
        author,
        channel,
        conversation.private ? [] : calledIn({ body: content.body, parley: content }),
      );
    if (recipient) await this.#members.keepDm(author, recipient, conversation.id);
    const { threadId } = conversation;
    const thread = threadId === undefined ? null : await this.#threadOf(origin, threadId, conversation.id);
    // A message of a system or a tool is information, unless the surface names an intent.
    const isStatus = (conversation.kind === 'system' || conversation.kind === 'tool') && post.intent === 'none';
    const said = post.createdAt === undefined ? Infinity : Date.parse(post.createdAt);
    const sent = await send(
      { ...workspace, newId: () => id, givenIds: true, now: () => Math.min(now(), said) },
      author,
      {
        ...content,
        to: channel ?? `@${recipient}`,
        priority: post.priority,
        intent: isStatus ? 'status' : post.intent,
        key: SendKey.parse(`surface/${id}`),
        ...(thread && { thread }),
        ...(post.obligation && { obligation: post.obligation }),
        ...(isStatus && { aim: 'ambient' as const }),
        ...(conversation.private && { private: true as const }),
        ...(isDm && { conversation: conversation.id }),
      },
    );
    // Notices of joining and leaving are only recorded: no model needs them.
    if (conversation.kind === 'system' && isStatus && sent.first) {
      for (const { mailbox, attention } of sent.copies) {
        await home.journal.reconsider(mailbox, id, { ...attention, injection: 'silent' });
      }
    }
    this.context.stored(sent.copies);
    return { eventId: sent.message.id, first: sent.first };
  }

  /** The posted content as fields of a message. `mentions`, if given, replaces the names in the text. */
  async #contentOf(
    origin: ChatOrigin,
    { content, mentions }: Pick<Post, 'content' | 'mentions'>,
  ): Promise<ChatContent> {
    const called = mentions && (await this.#members.called(origin, mentions));
    return { ...contentOf(content), ...(called && { mentions: called }) };
  }

  /** The new version replaces text, attachments and mentions. */
  async edit(wire: HostPeer, change: Params<'surface/edit'>): Promise<{ eventId: MessageId }> {
    const { origin, rate } = this.#on(wire);
    const { workspace, home } = this.context.deps;
    const { messageId, conversation } = change;
    await rate.turn('messages');
    return this.#order.run(`${origin.name} edit ${messageId}`, undefined, async () => {
      const { id, next, message } = await this.#located(origin, messageId, conversation);
      const content = await this.#contentOf(origin, change);
      if (isSameContent(content, message)) return { eventId: id };
      const sent = await edit(workspace, message.from as AgentName, home, id, content, next);
      this.context.stored(sent.copies);
      return { eventId: sent.message.id };
    });
  }

  /** Anyone's deletion ends the replies that are still owed. Only the author's also ends an obligation. */
  async delete(
    wire: HostPeer,
    { messageId, by, conversation }: Params<'surface/delete'>,
  ): Promise<{ eventId: MessageId }> {
    const { origin } = this.#on(wire);
    const { workspace, home } = this.context.deps;
    const { id, message } = await this.#located(origin, messageId, conversation);
    const who = by === undefined ? (message.from as AgentName) : personName(origin, by);
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

  /** Stores a reaction. An emoji without a meaning here is stored as it is and ends nothing. */
  async react(
    wire: HostPeer,
    reaction: Params<'surface/react'>,
  ): Promise<{ reactionId: MessageId | null; signal: string }> {
    const { origin, rate } = this.#on(wire);
    const { workspace, home } = this.context.deps;
    await rate.turn('reactions');
    const { messageId, reactionId, recipient, conversation } = reaction;
    const signal = signalFor(reaction);
    const author = await this.#members.person(origin, { id: reaction.author, kind: 'human' });
    const target = await this.#target(origin, messageId, conversation);
    const told = await home.journal.message(target);
    const channel = ChannelName.safeParse(told?.to ?? '');
    if (channel.success && (await this.#members.isShown(origin, channel.data))) {
      await this.#members.join(origin, author, channel.data, []);
    }
    const key = reactionKey(reactionId, conversation);
    const said = { signal, key, recipient, conversation };
    const done = await react(workspace, { name: author, home }, target, said);
    this.context.stored(done.sent?.copies ?? []);
    return { reactionId: done.sent?.message.id ?? null, signal };
  }

  typing(wire: HostPeer, { conversation, author: id, on }: Params<'surface/typing'>): void {
    const { origin } = this.#on(wire);
    const author = personName(origin, id);
    const key = `${author} ${conversation}`;
    const now = this.context.deps.now();
    for (const [old, { since }] of this.#typing) if (since < now - TYPING_MS) this.#typing.delete(old);
    if (on) this.#typing.set(key, { since: now, author, origin, conversation });
    else this.#typing.delete(key);
    this.context.stored();
  }

  /** Since when the author has been typing in the item's conversation. For a DM, any conversation that is no channel of ours counts. */
  typingSince({ author, message }: Item): number | null {
    for (const { since, author: typist, origin, conversation } of this.#typing.values()) {
      if (typist !== author.name) continue;
      const place = conversationName(origin, conversation);
      if (message.to.startsWith('#') ? message.to === place : !this.#members.isChannel(place)) return since;
    }
    return null;
  }

  /** Mail was stored that may be for people at a surface. */
  ring(): void {
    for (const { showing } of this.#bound.values()) showing.ring();
  }

  #on(wire: HostPeer): Surface {
    const surface = this.all().find((one) => one.wire === wire);
    if (surface) return surface;
    throw new Refusal('no_identity', 'this surface is not bound; call surface/bind first');
  }

  /** The message that a post answers: one of the platform, or one of ours by the id under which it was shown there. */
  async #threadOf(origin: ChatOrigin, threadId: string, conversation: string): Promise<MessageId> {
    const own = isMessageId(threadId) ? await this.context.deps.home.journal.message(threadId) : null;
    const channel = ChannelName.safeParse(own?.to);
    const isShown = channel.success
      ? await this.#members.isShown(origin, channel.data)
      : own?.to.startsWith(`@${origin.name}.`);
    return own && isShown ? own.id : this.#ids.referred(origin, threadId, conversation);
  }

  async #located(origin: ChatOrigin, messageId: string, conversation: string | undefined): Promise<Located> {
    const found = await this.#ids.locate(origin, messageId, conversation);
    if (found) return found;
    throw new Refusal('not_found', 'no message was posted with that messageId; post it first');
  }

  /** The message that a reaction is for: one of the platform, or one of ours by the id under which it was shown. */
  async #target(origin: ChatOrigin, messageId: string, conversation: string | undefined): Promise<MessageId> {
    const own = isMessageId(messageId) && (await this.context.deps.home.journal.message(messageId));
    if (own) return own.id;
    const known = await this.#ids.locate(origin, messageId, conversation);
    return known?.id ?? this.#ids.referred(origin, messageId, conversation);
  }
}

/** The same reaction always has the same key. Where message ids are unique only per conversation, so are those of reactions. */
function reactionKey(reactionId: string, conversation: string | undefined): SendKey {
  if (conversation === undefined) return SendKey.parse(`surface/reaction/${reactionId}`);
  const hash = new Bun.CryptoHasher('sha256').update(`${conversation}\n${reactionId}`).digest('hex');
  return SendKey.parse(`surface/reaction/${hash}`);
}

function recipientOf({ recipient }: Post): AgentName {
  if (recipient !== undefined) return recipient;
  throw new Refusal('invalid_request', 'name the recipient of a DM');
}
