import type { Home } from '../../core/mail/workspace.ts';
import { Broker } from './broker.ts';
import { lazyHome } from '../../store/home.ts';
import type { Durability } from '../../store/home.ts';
import { C2cDirectory } from './directory.ts';
import { C2cMailboxes } from './mailbox.ts';

/** A broker directory of c2c: a home like every other, and what else is in it. */
export interface OpenBroker {
  home: Home;
  broker: Broker;
  close(): Promise<void>;
}

/** The ledger of the broker is opened by the first who asks for it. */
export function openBroker(root: string, durability: Durability = 'normal'): OpenBroker {
  const directory = new C2cDirectory(root, Date.now);
  const open = lazyHome(
    'c2c',
    root,
    durability,
    directory,
    (parts) => new C2cMailboxes({ ...parts, names: directory }),
  );
  return { ...open, broker: new Broker(root, Date.now, directory.registry) };
}
