import type { Home } from '../flow/desk.ts';
import type { Broker } from '../storage/c2c/broker.ts';
import { BrokerFiles } from '../storage/c2c/files.ts';
import { C2cRegistry } from '../storage/directory/c2c-registry.ts';
import { C2cSpool } from '../storage/spool/c2c-broker.ts';
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
  const registry = new C2cRegistry(root, Date.now);
  const open = lazyHome('c2c', root, durability, registry, (parts) => new C2cSpool({ ...parts, names: registry }));
  return { ...open, broker: new BrokerFiles(root, Date.now, { registry: registry.file, rooms: registry.rooms }) };
}
