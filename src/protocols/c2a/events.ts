import type { SurfaceShow, HostPeer } from './context.ts';
import { flatEvent, hasFlatEvents } from './flat.ts';
import type { ChatDeliver } from './shapes.ts';
import type { MessageId } from '../../core/names.ts';
import type { JsonRpcPeer } from '../../wire/jsonrpc.ts';
import type { Agreement } from './agreement.ts';

/** How many events are remembered with the ids of their requests, so that they can be cancelled by them. */
const MOST_REMEMBERED = 2000;

/** What the engine sends over one connection, in the shape that both sides agreed on. */
export class PeerWire implements HostPeer {
  /** The last request id of each event, by session. */
  readonly #ids = new Map<MessageId, Map<string, string>>();

  constructor(
    readonly peer: JsonRpcPeer,
    readonly agreement: Agreement,
  ) {}

  /** Sends a request if the other side acknowledges events, otherwise a notification. spec: host#deliver */
  async deliver(event: ChatDeliver): Promise<void> {
    const { version, capabilities } = this.agreement;
    const params = hasFlatEvents(version) ? flatEvent(event, version) : event;
    if (!capabilities.delivery.ack) return this.peer.notify('chat/deliver', params);
    const key = `${event.sessionId}/${event.eventId}`;
    const { id, answer } = this.peer.request('chat/deliver', params, { key, prefix: 'deliver-' });
    this.#remember(event, id);
    await answer;
  }

  /** Cancels by the ids of the event's requests; by the event's own id if an earlier connection brought it. spec: host#cancelled */
  cancel(eventId: MessageId, reason: string): void {
    if (!this.agreement.capabilities.utilities.cancellation) return;
    for (const requestId of this.#ids.get(eventId)?.values() ?? [eventId])
      this.peer.notify('notifications/cancelled', { requestId, eventId, reason });
  }

  /** Shows a signal as the workspace's emoji. The same key again shows nothing new. spec: host#show */
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
