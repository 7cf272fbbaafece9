import type { Client, PossibleWay, Rank, WayFacts } from '../delivery/client.ts';
import type { WayName } from '../core/ports/way-in.ts';

export const POLL: PossibleWay = {
  way: 'poll',
  rank: 'baseline',
  isOn: () => true,
  because: 'no hook, plugin or loop brings its mail: it waits until the session asks for it',
  get: 'this needs no setup',
};

export function hook(client: string, rank: Rank, because: string, further = ''): PossibleWay {
  return { way: 'hook', rank, isOn: (facts) => facts.hook, because, get: `\`c2c install ${client}${further}\`` };
}

export function wake(client: string, rank: Rank): PossibleWay {
  return {
    way: 'wake',
    rank,
    isOn: ({ loop }) => loop === 'wake' || loop === 'deliver',
    because: 'a loop types into its terminal while it is idle',
    get: `\`c2c start ${client}\`, or \`c2c-deliver-inbox --client ${client}\` beside it`,
  };
}

/** The way in that a session of this client uses (the first that is on), the reason, and how to get a better one. */
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
