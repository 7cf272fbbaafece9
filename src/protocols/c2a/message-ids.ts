import type { Message } from '../../core/message.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { Home } from '../../core/mail/workspace.ts';
import { Refusal } from '../../core/refusal.ts';
import { bridgeName, conversationName, messageName, versionName } from './platform-names.ts';
import type { ChatOrigin } from './platform-names.ts';

const KINDS = [undefined, 'system', 'tool'] as const;

/** The last version of a message that came in from a surface. */
export interface Located {
  id: MessageId;
  /** The id of its first version, which threads use. */
  first: MessageId;
  /** The id of the next version. */
  next: MessageId;
  message: Message;
}

/**
 * Maps a platform's message ids to ours. Many platforms count the messages of each conversation from 1. The first conversation that uses
 * an id has it unchanged; for any other, our id contains the conversation. The journal shows which conversation was first, so a message
 * keeps its id forever. spec: host#message-ids
 */
export class MessageIds {
  readonly #repeating = new Set<AgentName>();

  constructor(readonly home: Home) {}

  /** The id of a message that is posted now or was posted before. */
  async posted(
    origin: ChatOrigin,
    messageId: string,
    { id: conversation, kind }: { id: string; kind: string },
    author: AgentName,
  ): Promise<MessageId> {
    const own = ownName(origin, messageId, conversation, kind);
    if (own && (await this.home.journal.message(own))) return own;
    const plain = messageName(origin, messageId, { kind });
    const taken = await this.home.journal.message(plain);
    const isMine = taken
      ? (isIn(taken, origin, conversation) ?? taken.from === author)
      : await this.#isFree(origin, plain, conversation);
    if (isMine) return plain;
    await this.#noteRepeating(origin);
    return own ?? messageName(origin, messageId, { kind, conversation });
  }

  /** The last version of a message, or null. Refuses an id without its conversation if several conversations may use that id. */
  async locate(origin: ChatOrigin, messageId: string, conversation: string | undefined): Promise<Located | null> {
    const { journal } = this.home;
    for (const kind of KINDS) {
      const own = conversation === undefined ? null : ownName(origin, messageId, conversation, kind);
      for (const id of [...(own ? [own] : []), messageName(origin, messageId, { kind })]) {
        const message = await journal.message(id);
        if (!message) continue;
        if (conversation === undefined) await this.#refuseRepeating(origin);
        else if (id !== own && isIn(message, origin, conversation) === false) continue;
        return this.#lastVersion(id, message);
      }
    }
    return null;
  }

  /** The id of the first version of a message that a reply or reaction names. The message may arrive later. */
  async referred(origin: ChatOrigin, messageId: string, conversation: string | undefined): Promise<MessageId> {
    const known = await this.locate(origin, messageId, conversation);
    if (known) return known.first;
    const plain = messageName(origin, messageId);
    if (conversation === undefined) return plain;
    const isMine = !(await this.home.journal.message(plain)) && (await this.#isFree(origin, plain, conversation));
    return isMine ? plain : messageName(origin, messageId, { conversation });
  }

  async #lastVersion(first: MessageId, message: Message): Promise<Located> {
    const { journal } = this.home;
    for (let last = { id: first, message }, version = 2; ; version += 1) {
      const next = versionName(first, version);
      const later = await journal.message(next);
      if (!later) return { ...last, first, next };
      last = { id: next, message: later };
    }
  }

  /** True if no message has this id and no other conversation has referred to it. */
  async #isFree(origin: ChatOrigin, id: MessageId, conversation: string): Promise<boolean> {
    const [said] = await this.home.journal.exchange(id, 1);
    return !said || isIn(said, origin, conversation) !== false;
  }

  async #noteRepeating(origin: ChatOrigin): Promise<void> {
    if (this.#repeating.has(origin.name)) return;
    const { platform, workspaceId } = origin;
    await this.home.directory.amend(bridgeName(origin.name), ({ surface }) =>
      surface?.repeatsIds ? null : { surface: { platform, workspaceId, repeatsIds: true } },
    );
    this.#repeating.add(origin.name);
  }

  async #refuseRepeating({ name }: ChatOrigin): Promise<void> {
    const record = this.#repeating.has(name) ? null : await this.home.directory.get(bridgeName(name));
    if (record && !record.parley?.surface?.repeatsIds) return;
    throw new Refusal(
      'invalid_request',
      'several conversations of this workspace use the same message ids; name the conversation too',
    );
  }
}

/** The id with its conversation in it. Null if it would be too long: such a long id is unique without it. */
function ownName(origin: ChatOrigin, id: string, conversation: string, kind: string | undefined): MessageId | null {
  try {
    return messageName(origin, id, { kind, conversation });
  } catch (error) {
    if (error instanceof Refusal) return null;
    throw error;
  }
}

/** Is the message from this conversation? Undefined if its conversation is not recorded. */
function isIn({ to, parley }: Message, origin: ChatOrigin, conversation: string): boolean | undefined {
  if (to.startsWith('#')) return to === conversationName(origin, conversation);
  return parley?.conversation === undefined ? undefined : parley.conversation === conversation;
}
