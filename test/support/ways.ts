import type { Offer, Parcel, Way, WayName } from '../../src/delivery/way.ts';

/** A way in that does as it is told, one word for each offer; the last word stands for all that follow. */
export class ScriptedWay implements Way {
  readonly got: (readonly Parcel[])[] = [];
  readonly #said: Offer[];

  constructor(
    readonly name: WayName,
    said: Offer[],
    readonly onOffer: (parcels: readonly Parcel[], signal: AbortSignal) => Promise<void> = async () => {},
  ) {
    this.#said = said;
  }

  async offer(parcels: readonly Parcel[], signal: AbortSignal): Promise<Offer> {
    await this.onOffer(parcels, signal);
    const [said, ...others] = this.#said;
    if (!said) throw new Error('nothing is scripted');
    if (others.length > 0) this.#said.shift();
    if (said.outcome !== 'left') this.got.push(parcels);
    return said;
  }
}

export const TAKEN: Offer = { outcome: 'taken', step: 'accepted', evidence: { status: 'finished' } };
export const HANDED: Offer = { outcome: 'offered', evidence: { terminal: 'tmux work:0.1' } };
export const BUSY: Offer = { outcome: 'left', because: 'the client is busy', retry: true };
export const NEVER: Offer = { outcome: 'left', because: 'it has no terminal', retry: false };
