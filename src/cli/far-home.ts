import { attendForeign } from '../flow/attend.ts';
import type { Home } from '../flow/desk.ts';
import { Refusal } from '../protocol/refusal.ts';
import { folderFor, readIdentity } from '../storage/relay/identity.ts';
import type { Identity } from '../storage/relay/identity.ts';
import { openRelay } from '../storage/relay/open.ts';
import type { Settings } from './settings.ts';
import { writeAll } from './terminal.ts';

/** Which agent at which relay: by its folder; or, for a Backchannel program, by what its own config says. */
export type FarOrder = { durability: Settings['durability'] } & (
  | { root: string }
  | { place: Omit<Identity, 'v' | 'abilities'>; below: string }
);

/** The home of an agent at a relay: read through a shelf on this machine. Backchannel's agents have no policy and no outbox. */
export function farHome(order: FarOrder): Home {
  const asOriginal = 'place' in order;
  const { root, identity } = asOriginal ? known(order) : { root: order.root, identity: saved(order.root) };
  const { ledger, spool, directory, far } = openRelay({
    root,
    identity,
    durability: order.durability,
    kind: asOriginal ? 'foreign' : 'agent',
    queues: !asOriginal,
    judge: (known, mailbox, message) => attendForeign({ ...home, ...known }, mailbox, message),
    // The original is silent about a stream that breaks.
    tell: (text) => (asOriginal ? undefined : writeAll(2, `parley: ${text}\n`)),
  });
  const home: Home = { label: 'relay', root, ledger, spool, directory, far };
  return home;
}

function saved(root: string): Identity {
  const identity = readIdentity(root);
  if (identity) return identity;
  throw new Refusal('bad_config', `${root} has no relay.json; remove the folder and join again`);
}

/** The token of an agent that is not the current one stands in its folder. */
function known({ place, below }: Extract<FarOrder, { below: string }>): { root: string; identity: Identity } {
  const root = folderFor(below, place);
  return { root, identity: { ...readIdentity(root), v: 1, ...place } };
}
