import type { SurfaceShow, HostPeer } from './context.ts';
import type { ChatDeliver, Part, ProtocolVersion } from './shapes.ts';
import type { MessageId } from '../../core/names.ts';
import type { JsonRpcPeer, Params } from '../../wire/jsonrpc.ts';
import type { Agreement } from './agreement.ts';

/** Accepted events that can still be cancelled by the id of their request. */
const MOST_REMEMBERED = 2000;

/** What the engine sends over one connection, in the shape that both sides agreed on. */
export class PeerWire implements HostPeer {
  /** The last request id of an event, by session. */
  readonly #ids = new Map<MessageId, Map<string, string>>();

  constructor(
    readonly peer: JsonRpcPeer,
    readonly agreement: Agreement,
  ) {}

  /** A request if the other side acknowledges, otherwise a notification that nobody waits for. spec: host#deliver */
  async deliver(event: ChatDeliver): Promise<void> {
    const { version, capabilities } = this.agreement;
    const params = hasFlatEvents(version) ? flatEvent(event) : event;
    if (!capabilities.delivery.ack) return this.peer.notify('chat/deliver', params);
    const key = `${event.sessionId}/${event.eventId}`;
    const { id, answer } = this.peer.request('chat/deliver', params, { key, prefix: 'deliver-' });
    this.#remember(event, id);
    await answer;
  }

  /** Names the requests that brought the event, and the event: an earlier connection may have brought it. spec: host#cancelled */
  cancel(eventId: MessageId, reason: string): void {
    if (!this.agreement.capabilities.utilities.cancellation) return;
    for (const requestId of this.#ids.get(eventId)?.values() ?? [eventId])
      this.peer.notify('notifications/cancelled', { requestId, eventId, reason });
  }

  /** A signal is shown as the workspace's emoji for it. The same key again is the same thing. spec: host#show */
  async show(params: SurfaceShow): Promise<void> {
    if (params.what === 'progress' && !this.agreement.capabilities.utilities.progress) return;
    const glyph = params.signal === undefined ? undefined : this.agreement.emoji.emojiOf(params.signal);
    const shown = { ...params, ...(glyph !== undefined && { glyph }) };
    await this.peer.request('surface/show', shown, { key: `show/${params.idempotencyKey}`, prefix: 'show-' }).answer;
  }

  #remember({ eventId, sessionId }: ChatDeliver, id: string): void {
    const ids = this.#ids.get(eventId) ?? new Map<string, string>();
    this.#ids.delete(eventId);
    this.#ids.set(eventId, ids.set(sessionId, id));
    const [oldest] = this.#ids.size > MOST_REMEMBERED ? this.#ids.keys() : [];
    if (oldest !== undefined) this.#ids.delete(oldest);
  }
}

// The draft of 2026-06-24 has another shape: an event is flat (`addressedToMe`, `policy`, `content` as one text), there are three kinds
// of conversation, and no `ack_only`. Peers that agreed on it get that shape. We accept both shapes from everybody. spec: host#flat

const KINDS = ['dm', 'channel', 'thread'];

export function hasFlatEvents(version: ProtocolVersion): boolean {
  return version === '2026-06-24';
}

/** An event as that draft has it. Fields of the newer draft stay where they have a place of their own. */
function flatEvent(event: ChatDeliver): Params {
  const { content, conversation, attention, target, prompt } = event;
  const isMine = target.directedness === 'to_me';
  const kind = KINDS.includes(conversation.kind) ? conversation.kind : isMine ? 'dm' : 'channel';
  return {
    ...(flatResult(event) as Params),
    conversation: { ...conversation, kind },
    addressedToMe: isMine,
    policy: flatPolicy(attention.policy),
    ...(content && { content: content.map(plainText).join('\n') }),
    // A line of the header: lines of a message are quoted and never look like one.
    ...(prompt !== undefined && {
      prompt: prompt.replaceAll(/^response_policy: ack_only$/gm, 'response_policy: must_not_respond'),
    }),
  };
}

/** Replaces every `policy` in the answer of a tool. */
export function flatResult(result: unknown): unknown {
  if (Array.isArray(result)) return result.map(flatResult);
  if (typeof result !== 'object' || result === null) return result;
  return Object.fromEntries(
    Object.entries(result).map(([name, value]) => [
      name,
      name === 'policy' && typeof value === 'string' ? flatPolicy(value) : flatResult(value),
    ]),
  );
}

/** A peer that does not know `ack_only` stays silent rather than answer thanks. */
function flatPolicy(policy: string): string {
  return policy === 'ack_only' ? 'must_not_respond' : policy;
}

/** What a surface brings, in our shape: a text is one part, and an event's id is its message's. */
export function fromFlat({ content, eventId, ...others }: Params): Params {
  return {
    ...(typeof eventId === 'string' && { messageId: eventId }),
    ...others,
    ...(content !== undefined && {
      content: typeof content === 'string' ? [{ type: 'text', text: content }] : content,
    }),
  };
}

function plainText(part: Part): string {
  return part.type === 'text' ? part.text : part.label === undefined ? part.ref : `${part.label} (${part.ref})`;
}
