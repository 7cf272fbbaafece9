import type { Attempt, Parcel, Way, WayName } from '../../src/core/ports/way-in.ts';

/** A way in that does as it is told, one word for each attempt; the last word counts for all that follow. */
export class ScriptedWay implements Way {
  readonly got: (readonly Parcel[])[] = [];
  readonly #said: Attempt[];

  constructor(
    readonly name: WayName,
    said: Attempt[],
    readonly onOffer: (parcels: readonly Parcel[], signal: AbortSignal) => Promise<void> = async () => {},
  ) {
    this.#said = said;
  }

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    await this.onOffer(parcels, signal);
    const [said, ...others] = this.#said;
    if (!said) throw new Error('nothing is scripted');
    if (others.length > 0) this.#said.shift();
    if (said.outcome !== 'left') this.got.push(parcels);
    return said;
  }
}

export const TAKEN: Attempt = { outcome: 'taken', step: 'accepted', evidence: { status: 'finished' } };
export const HANDED: Attempt = { outcome: 'offered', evidence: { terminal: 'tmux work:0.1' } };
export const BUSY: Attempt = { outcome: 'left', because: 'the client is busy', retry: true };
export const NEVER: Attempt = { outcome: 'left', because: 'it has no terminal', retry: false };
