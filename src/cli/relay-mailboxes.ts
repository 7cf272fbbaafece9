import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { readIdentity } from '../protocols/backchannel/remote-identity.ts';
import type { Identity } from '../protocols/backchannel/remote-identity.ts';

/** One mailbox of this user at a relay. */
export interface RelayMailbox extends Pick<Identity, 'agent' | 'url' | 'room'> {
  /** Its folder on this machine. */
  root: string;
  /** How many messages are in its outbox. */
  unsent: number;
}

/** The mailboxes at relays whose tokens are in this home. Nothing is asked over the network. */
export function relayMailboxes(home: string): RelayMailbox[] {
  const folder = join(home, 'relays');
  return (existsSync(folder) ? readdirSync(folder) : []).sort().flatMap((name) => {
    const root = join(folder, name);
    const identity = readIdentity(root);
    if (!identity) return [];
    const { agent, url, room } = identity;
    return [{ agent, url, room, root, unsent: filesIn(join(root, 'outbox')) }];
  });
}

function filesIn(folder: string): number {
  return existsSync(folder) ? readdirSync(folder).filter((name) => !name.startsWith('.')).length : 0;
}
