import type { RelayHttp } from './http.ts';
import type { Abilities } from './identity.ts';

/** How long an answer holds: a relay can be replaced by another program at the same address. */
const HOLDS_MS = 24 * 60 * 60 * 1000;

/** What a relay can do, asked as seldom as possible: nearly every command would pay a round for it. */
export class KnownAbilities {
  constructor(
    readonly http: RelayHttp,
    readonly now: () => number,
    readonly remembered: { read(): Abilities | undefined; write(abilities: Abilities): void },
  ) {}

  /** As it was last told; undefined if nobody ever asked. */
  known(): Abilities | undefined {
    return this.remembered.read();
  }

  /** As it was last told, if that is not long ago. */
  async get(): Promise<Abilities> {
    const known = this.known();
    return known && Math.abs(this.now() - known.asked) < HOLDS_MS ? known : this.askNow();
  }

  /** As it is this very moment: whatever could do harm if it were otherwise asks here. */
  async askNow(): Promise<Abilities> {
    const abilities = { ...(await abilitiesOf(this.http)), asked: this.now() };
    this.remembered.write(abilities);
    return abilities;
  }

  /** What we remembered was not so. */
  forget(): void {
    this.remembered.write({ keys: false, leases: false, asked: 0 });
  }
}

/** The original knows no such route, and says so with a 401 or a 404. */
export async function abilitiesOf(http: RelayHttp): Promise<Omit<Abilities, 'asked'>> {
  const { status, data } = await http.call('GET', '/v1/version', { token: null });
  const told = (status === 200 && typeof data === 'object' && data !== null ? data : {}) as Record<string, unknown>;
  return { keys: told['keys'] === true, leases: told['leases'] === true };
}
