import type * as Relay from './remote-home.ts';
import type { Durability } from '../../store/home.ts';
import type { AgentName } from '../../core/names.ts';
import type { Home } from '../../core/mail/workspace.ts';
import { attendForeign } from '../../core/mail/attend.ts';
import { writeAll } from '../../platform/terminal.ts';
import { readIdentity, folderFor } from './remote-identity.ts';
import type { Identity } from './remote-identity.ts';
import { Refusal } from '../../core/refusal.ts';

/** An agent at a relay, named by its folder or, for Backchannel's own program, by the config of that. */
export type RemotePlace = { durability: Durability } & (
  | { root: string }
  | { place: { agent: AgentName; url: string; room?: string; token?: string }; below: string }
);

/** The home of an agent at a relay, read through a local mailbox. Agents of `bch` have no attention policy and no outbox. */
export function openRemoteHome(order: RemotePlace): Home {
  const asOriginal = 'place' in order;
  const { root, identity } = asOriginal ? known(order) : { root: order.root, identity: saved(order.root) };
  // Loaded here: the HTTP client and its queue cost every start 3 %, and few agents are at a relay.
  const { openRelay } = require('./remote-home.ts') as typeof Relay;
  const { journal, mailboxes, directory, remote } = openRelay({
    root,
    identity,
    durability: order.durability,
    kind: asOriginal ? 'foreign' : 'agent',
    queues: !asOriginal,
    judge: (known, mailbox, message) => attendForeign({ ...home, ...known }, mailbox, message),
    // The original prints nothing about a broken stream.
    tell: (text) => (asOriginal ? undefined : writeAll(2, `parley: ${text}\n`)),
  });
  const home: Home = { label: 'relay', root, journal, mailboxes, directory, remote };
  return home;
}

function saved(root: string): Identity {
  const identity = readIdentity(root);
  if (identity) return identity;
  throw new Refusal('bad_config', `${root} has no relay.json; remove the folder and join again`);
}

/** The token of an agent that is not the current one is in its folder. */
function known({ place, below }: Extract<RemotePlace, { below: string }>): { root: string; identity: Identity } {
  const root = folderFor(below, place);
  return { root, identity: { ...readIdentity(root), v: 1, ...place } };
}
