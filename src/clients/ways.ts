import type { WayName } from '../delivery/way.ts';
import type { ClientName } from './client-names.ts';

/** What is known of a session when it is asked by which way its mail comes. */
export interface WayFacts {
  /** Our hook stands in the client's settings, and the client runs it as far as that can be seen. */
  hook: boolean;
  /** Our server stands there. */
  server: boolean;
  /** Our plugin is where the client loads plugins, and it has said who it is. */
  plugin: boolean;
  /** The loop that runs for the session. */
  loop: 'wake' | 'deliver' | 'wire' | null;
  /** The client is one that can be started in wire mode. */
  hasWire: boolean;
}

type Rank = 'primary' | 'fallback' | 'baseline';

interface Possible {
  way: WayName;
  rank: Rank;
  isOn(facts: WayFacts): boolean;
  /** Could it be on, with this client? */
  isPossible?(facts: WayFacts): boolean;
  because: string;
  /** How it is got. */
  get: string;
}

const POLL: Possible = {
  way: 'poll',
  rank: 'baseline',
  isOn: () => true,
  because: 'nothing brings its mail: that waits until the session asks for it',
  get: 'nothing has to be done',
};

function hook(client: ClientName, rank: Rank, because: string, further = ''): Possible {
  return { way: 'hook', rank, isOn: (facts) => facts.hook, because, get: `\`c2c install ${client}${further}\`` };
}

function wake(client: ClientName, rank: Rank): Possible {
  return {
    way: 'wake',
    rank,
    isOn: ({ loop }) => loop === 'wake' || loop === 'deliver',
    because: 'a loop types into its terminal when it is idle',
    get: `\`c2c start ${client}\`, or \`c2c-deliver-inbox --client ${client}\` beside it`,
  };
}

/** The ways in of each client, the best first: the one that a session is on is the first that is on. spec: c2c#ways */
export const CLIENT_WAYS: Readonly<Record<ClientName, readonly Possible[]>> = {
  claude: [hook('claude', 'primary', 'its hook looks after every tool call'), wake('claude', 'fallback'), POLL],
  codex: [
    wake('codex', 'primary'),
    hook('codex', 'fallback', 'its hook looks after every tool call and at the end of a turn', ' --hooks'),
    POLL,
  ],
  opencode: [
    {
      way: 'plugin',
      rank: 'primary',
      isOn: (facts) => facts.plugin,
      because: 'the plugin hands mail to its session',
      get: '`c2c install opencode`',
    },
    wake('opencode', 'fallback'),
    POLL,
  ],
  kimi: [
    {
      way: 'wire',
      rank: 'primary',
      isOn: ({ loop }) => loop === 'wire',
      isPossible: (facts) => facts.hasWire,
      because: 'a kimi is started in wire mode when mail comes',
      get: '`c2c wire-daemon start`',
    },
    hook('kimi', 'primary', 'its hook looks at each prompt and at the end of a turn'),
    wake('kimi', 'fallback'),
    POLL,
  ],
  gemini: [hook('gemini', 'primary', 'its hook looks after every tool call and at the end of a turn'), POLL],
};

/** What a client could do besides, and this program does not use. */
export const UNUSED_WAYS: Readonly<Partial<Record<ClientName, string>>> = {
  claude: 'its own messaging socket, which reaches an idle session, is not used yet',
  codex: 'its own queue (`codex queue`) and its daemon, which reach an idle session, are not used yet',
  kimi: 'its own web server (`kimi web`) is not used yet',
};

/** The way that a session is on, why, and what would make a better one. */
export function wayOf(
  client: ClientName | null,
  facts: WayFacts,
): { way: WayName; rank: Rank; because: string; better: string | null } {
  const ways = client === null ? [POLL] : CLIENT_WAYS[client];
  const at = ways.findIndex((one) => one.isOn(facts) && (one.isPossible?.(facts) ?? true));
  const { way, rank, because } = ways[at] ?? POLL;
  const better = ways.slice(0, at).find((one) => one.isPossible?.(facts) ?? true);
  const isWoken = facts.loop === 'wake' && way !== 'wake' ? ', and a loop wakes it when it is idle' : '';
  return {
    way,
    rank,
    because: `${because}${isWoken}`,
    better: better ? `${better.way} is better: ${better.get}` : null,
  };
}
