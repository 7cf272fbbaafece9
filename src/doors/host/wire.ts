import type { SurfaceShow, Wire } from '../../flow/host/wire.ts';
import type { ChatDeliver } from '../../protocol/host.ts';
import type { MessageId } from '../../protocol/names.ts';
import type { Calls } from './calls.ts';
import { flatEvent } from './flat.ts';
import type { Params } from './frames.ts';
import type { Terms } from './terms.ts';

/** Events that were accepted and can still be called off by the id under which they came. */
const MOST_REMEMBERED = 2000;

/** What the engine says to one connection, in the words that both sides agreed on. */
export class PeerWire implements Wire {
  /** Under which id an event last went out, for each session that got it. */
  readonly #ids = new Map<MessageId, Map<string, string>>();

  constructor(
    readonly calls: Calls,
    readonly terms: Terms,
  ) {}

  /** A request where the other side acknowledges; otherwise a notification, and nobody waits. spec: host#deliver */
  async deliver(event: ChatDeliver): Promise<void> {
    const { version, capabilities } = this.terms;
    const params: Params = version === '2026-06-24' ? flatEvent(event) : event;
    if (!capabilities.delivery.ack) return this.calls.notify('chat/deliver', params);
    const key = `${event.sessionId}/${event.eventId}`;
    const { id, answer } = this.calls.request('deliver', key, 'chat/deliver', params);
    this.#remember(event, id);
    await answer;
  }

  /** Names the requests that brought the event, and the event itself: they may have come over an earlier connection. spec: host#cancelled */
  cancel(eventId: MessageId, reason: string): void {
    if (!this.terms.capabilities.utilities.cancellation) return;
    for (const requestId of this.#ids.get(eventId)?.values() ?? [eventId]) {
      this.calls.notify('notifications/cancelled', { requestId, eventId, reason });
    }
  }

  /** A signal is shown as the workspace's own sign for it. Asked again, it is the same thing. spec: host#show */
  async show(params: SurfaceShow): Promise<void> {
    if (params.what === 'progress' && !this.terms.capabilities.utilities.progress) return;
    const glyph = params.signal === undefined ? undefined : this.terms.glyphs.glyphOf(params.signal);
    const shown = { ...params, ...(glyph !== undefined && { glyph }) };
    await this.calls.request('show', `show/${params.idempotencyKey}`, 'surface/show', shown).answer;
  }

  #remember({ eventId, sessionId }: ChatDeliver, id: string): void {
    const ids = this.#ids.get(eventId) ?? new Map<string, string>();
    this.#ids.delete(eventId);
    this.#ids.set(eventId, ids.set(sessionId, id));
    const [oldest] = this.#ids.size > MOST_REMEMBERED ? this.#ids.keys() : [];
    if (oldest !== undefined) this.#ids.delete(oldest);
  }
}
