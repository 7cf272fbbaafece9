// A relay to be measured: with its storage, or with mailboxes that store nothing.
import { openRelayRooms } from '../../src/protocols/backchannel/relay-rooms.ts';
import { mkdirSync, writeFileSync } from 'node:fs';
import { serveRelay } from '../../src/protocols/backchannel/relay-server.ts';
import type { Home } from '../../src/core/mail/workspace.ts';
import { BODY_LIMIT } from '../../src/core/message.ts';
import { hashOf } from '../../src/wire/tokens.ts';
import { raiseFileLimit } from '../../src/platform/libc.ts';
import type { Mailboxes } from '../../src/core/ports/mailboxes.ts';

export interface Serving {
  home: string;
  agents: number;
  storage: boolean;
}

let bare: Home | undefined;
const plan = JSON.parse(process.argv[2] ?? '') as Serving;
mkdirSync(`${plan.home}/agents`, { recursive: true });
for (let n = 0; n < plan.agents; n += 1) {
  const now = new Date().toISOString();
  const record = {
    name: `agent-${n}`,
    subscriptions: [],
    createdAt: now,
    lastSeen: now,
    tokenHash: hashOf(`token-${n}`),
  };
  writeFileSync(`${plan.home}/agents/agent-${n}.json`, JSON.stringify(record, null, 2), { mode: 0o600 });
}
raiseFileLimit(65_536);
const relay = await openRelayRooms({
  root: plan.home,
  durability: 'normal',
  defaultTokenHash: null,
  afterDeath: false,
  onTrouble() {},
});
const server = serveRelay(
  {
    rooms: relay.rooms,
    home: (id) => (plan.storage ? relay.home(id) : forgetful(relay.home(id))),
    closeHome: (id) => relay.closeHome(id),
    settings: {
      bodyLimit: BODY_LIMIT,
      adminTokenHash: null,
      rate: null,
      quota: { waiting: 1e9 },
      mostAgents: Infinity,
      mostRooms: 200,
      keepWaitingMs: null,
      loopback: null,
      proxied: false,
    },
    log: () => {},
    now: Date.now,
    version: 'bench',
  },
  { hostname: '127.0.0.1', port: 0 },
);
console.log(JSON.stringify({ port: server.port }));
for await (const _line of console) break;
await server.stop();
await relay.close();
process.exit(0);

/** The same home, but with mailboxes that accept messages and do not store them. */
function forgetful({ label, root, directory, journal, mailboxes }: Home): Home {
  if (bare) return bare;
  const nowhere: Mailboxes = Object.create(mailboxes) as Mailboxes;
  nowhere.put = async ({ message, copies }) => ({ message, copies, first: true });
  nowhere.flush = () => mailboxes.flush();
  nowhere.heal = () => mailboxes.heal();
  bare = { label, root, directory, journal, mailboxes: nowhere };
  return bare;
}
