import type { Client, PossibleWay, Rank, WayFacts } from '../delivery/client.ts';
import type { WayName } from '../core/ports/way-in.ts';

export const POLL: PossibleWay = {
  way: 'poll',
  rank: 'baseline',
  isOn: () => true,
  because: 'nothing brings its mail: that waits until the session asks for it',
  get: 'nothing has to be done',
};

export function hook(client: string, rank: Rank, because: string, further = ''): PossibleWay {
  return { way: 'hook', rank, isOn: (facts) => facts.hook, because, get: `\`c2c install ${client}${further}\`` };
}

export function wake(client: string, rank: Rank): PossibleWay {
  return {
    way: 'wake',
    rank,
    isOn: ({ loop }) => loop === 'wake' || loop === 'deliver',
    because: 'a loop types into its terminal when it is idle',
    get: `\`c2c start ${client}\`, or \`c2c-deliver-inbox --client ${client}\` beside it`,
  };
}

/** The way that a session of this client is on, why, and what would make a better one. The first way that is on counts. */
export function wayOf(
  client: Client | null,
  facts: WayFacts,
): { way: WayName; rank: Rank; because: string; better: string | null } {
  const ways = client?.ways ?? [POLL];
  const isPossible = (one: PossibleWay): boolean => one.isPossible?.(facts) ?? true;
  const at = ways.findIndex((one) => one.isOn(facts) && isPossible(one));
  const { way, rank, because } = ways[at] ?? POLL;
  const better = ways.slice(0, at).find(isPossible);
  const isWoken = facts.loop === 'wake' && way !== 'wake' ? ', and a loop wakes it when it is idle' : '';
  return {
    way,
    rank,
    because: `${because}${isWoken}`,
    better: better ? `${better.way} is better: ${better.get}` : null,
  };
}
