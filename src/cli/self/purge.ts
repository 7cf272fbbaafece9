import { existsSync, lstatSync, realpathSync, rmSync } from 'node:fs';
import { join, sep } from 'node:path';
import type { Home } from '../../core/mail/workspace.ts';
import { Refusal } from '../../core/refusal.ts';
import { explained } from '../../core/disk.ts';
import { counted } from '../doctor/finding.ts';
import { relayMailboxes } from '../relay-mailboxes.ts';

/** So many mailboxes are named. */
const MOST_NAMED = 10;

/** What a home holds, for people: who would lose what, one line for each mailbox, those with the most mail first. */
export async function holdings(home: Home): Promise<string[]> {
  const agents = await home.directory.list();
  const counts = await Promise.all(
    agents.map(async ({ name }) => ({ name, waiting: (await home.mailboxes.ids(name)).length })),
  );
  const sorted = counts.toSorted((a, b) => b.waiting - a.waiting);
  const rest = sorted.slice(MOST_NAMED);
  const more = rest.reduce((sum, { waiting }) => sum + waiting, 0);
  return [
    ...sorted.slice(0, MOST_NAMED).map(({ name, waiting }) => `@${name} (${waiting} waiting)`),
    ...(rest.length > 0 ? [`and ${counted(rest.length, 'more mailbox', 'more mailboxes')} (${more} waiting)`] : []),
    // Without their tokens nobody can act as them again.
    ...relayMailboxes(home.root).map(
      ({ agent, url, unsent }) => `@${agent} at ${url} (its token${unsent > 0 ? `, ${unsent} not sent yet` : ''})`,
    ),
  ];
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
