import type { Evidence } from '../protocol/receipt.ts';
import type { Attempt, Parcel, Way } from './way.ts';

export interface ChannelParts {
  /** Notifies the client. A notification has no answer, so it proves nothing. */
  notify(parcel: Parcel): void;
  /**
   * Waits for the client's own record of these messages, and returns what it says; null if it does not come. Undefined if the client
   * keeps no such record.
   */
  proof?: ((parcels: readonly Parcel[], signal: AbortSignal) => Promise<Evidence | null>) | undefined;
}

/** Way 1: the client's MCP server notifies it, and the client shows it. spec: c2c#channel */
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
