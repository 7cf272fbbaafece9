import { existsSync, lstatSync, realpathSync, rmSync } from 'node:fs';
import { join, sep } from 'node:path';
import type { Home } from '../../core/mail/workspace.ts';
import { Refusal } from '../../core/refusal.ts';
import { explained } from '../../core/disk.ts';
import { relayMailboxes } from '../relay-mailboxes.ts';

/** What a home holds, in one line for people: who would lose what. */
export async function holdings(home: Home): Promise<string> {
  const agents = await home.directory.list();
  const counts = [];
  for (const { name } of agents) {
    const waiting = (await home.mailboxes.ids(name)).length;
    counts.push(`@${name} (${waiting} waiting)`);
  }
  // Without their tokens nobody can act as them again.
  for (const { agent, url, unsent } of relayMailboxes(home.root))
    counts.push(`@${agent} at ${url} (its token${unsent > 0 ? `, ${unsent} not sent yet` : ''})`);
  return counts.length > 0 ? counts.join(', ') : 'no agents';
}

/** Refuses a folder that holds more than a home, or none. */
export function refuseUnsafe(root: string, precious: readonly string[]): void {
  refuseNoHome(root);
  const inside = precious
    .filter((path) => existsSync(path))
    .find((path) => isWithin(realpathSync(path), realpathSync(root)));
  if (inside) throw new Refusal('invalid_request', `${root} also holds ${inside}; remove Parley's files there by hand`);
}

/** Removes a home with everything in it. */
export function purge(root: string): void {
  try {
    rmSync(root, { recursive: true, force: true });
  } catch (error) {
    throw explained(error, root, 'not everything was removed');
  }
}

function refuseNoHome(root: string): void {
  const isHome = ['ledger.db', 'agents', 'config.json'].some((name) => existsSync(join(root, name)));
  if (!isHome)
    throw new Refusal('invalid_request', `${root} does not look like a Parley home; nothing was removed there`);
  if (lstatSync(root).isSymbolicLink()) {
    throw new Refusal('invalid_request', `${root} is a link to ${realpathSync(root)}; remove both by hand`);
  }
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}
