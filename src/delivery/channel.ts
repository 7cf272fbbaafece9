import { masked } from '../attention/secrets.ts';
import type { Evidence } from '../protocol/receipt.ts';
import { attribute } from './c2c-envelope.ts';
import type { Enveloped } from './c2c-envelope.ts';
import { forModel } from './gate.ts';
import type { Attempt, Parcel, Way } from './way.ts';

export interface ChannelParts {
  /** Tells the client. A notification has no answer: that it was told proves nothing. */
  notify(parcel: Parcel): void;
  /**
   * Waits for the client's own record of these messages, and answers what it says; null if it does not come. Undefined where there
   * is no such record to wait for.
   */
  proof?: ((parcels: readonly Parcel[], signal: AbortSignal) => Promise<Evidence | null>) | undefined;
}

/** Way 1: the client's MCP server tells it unasked, and the client shows it. spec: c2c#channel */
export class ChannelWay implements Way {
  readonly name = 'channel';

  constructor(readonly parts: ChannelParts) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    if (parcels.length === 0) return { outcome: 'left', because: 'there is nothing to tell', retry: false };
    if (signal.aborted) return { outcome: 'left', because: 'it was stopped before', retry: true };
    try {
      for (const parcel of parcels) this.parts.notify(parcel);
    } catch {
      return { outcome: 'left', because: 'the client is gone', retry: true };
    }
    const evidence = await this.parts.proof?.(parcels, signal);
    if (evidence) return { outcome: 'taken', step: 'shown', evidence };
    return { outcome: 'offered', evidence: { way: this.name, told: parcels.length } };
  }
}

/**
 * What the client is told. The keys of `meta` become attributes of what the model sees: plain words, and no text of others but in
 * `content`. Nobody asked for it, so secrets are masked too.
 */
export function channelNotice({ from_alias, to_alias, content, ts = 0, message_id, redelivered }: Enveloped): object {
  return {
    content: forModel(masked(content)),
    meta: {
      from_alias: attribute(masked(from_alias)),
      to_alias: attribute(to_alias),
      message_id,
      ts: new Date(ts * 1000).toISOString(),
      ...(redelivered && { redelivered: 'true' }),
    },
  };
}
