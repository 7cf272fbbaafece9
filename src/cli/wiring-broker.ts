import type { Home } from '../flow/desk.ts';
import { Broker } from '../protocols/c2c/broker.ts';
import { C2cDirectory } from '../protocols/c2c/directory.ts';
import { C2cMailbox } from '../protocols/c2c/mailbox.ts';
import type { Settings } from './settings.ts';
import { lazyHome } from './wiring-home.ts';

/**
 * A broker directory of c2c: a home like every other, and what else is in it. Its ledger is opened by the first who asks for it. In a
 * file of its own: whoever has no other home pays for no other backend.
 */
export function openBroker(
  root: string,
  durability: Settings['durability'] = 'normal',
): { home: Home; broker: Broker; close(): Promise<void> } {
  const directory = new C2cDirectory(root, Date.now);
  const open = lazyHome('c2c', root, durability, directory, (parts) => new C2cMailbox({ ...parts, names: directory }));
  return { ...open, broker: new Broker(root, Date.now, directory.registry) };
}
