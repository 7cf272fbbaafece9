import type { Home } from '../../core/mail/workspace.ts';
import { Broker } from './broker.ts';
import { lazyHome } from '../../store/home.ts';
import type { Durability } from '../../store/home.ts';
import { C2cDirectory } from './directory.ts';
import { C2cMailboxes } from './mailbox.ts';

/** An open broker directory of c2c: a home, with the sessions and rooms of the broker. */
export interface OpenBroker {
  home: Home;
  broker: Broker;
  close(): Promise<void>;
}

/** Opens a broker directory. Its ledger is opened at the first use. */
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
