import { ownersOf } from '../../flow/appoint.ts';
import type { Home } from '../../flow/workspace.ts';
import { on } from './finding.ts';
import type { Finding } from './finding.ts';

/** The person who is told when nobody else can decide. Homes of other programs know no people. */
export async function examineOwner(home: Home): Promise<Finding[]> {
  const { ok, warn, bad } = on('owner');
  const records = await home.directory.list();
  if (home.remote || home.label === 'c2c' || records.every(({ parley }) => !parley)) return [];
  const [owner, ...others] = await ownersOf(home);
  if (!owner) {
    const next = '`parley init <your name> --human --owner`; until then what would need you is held';
    return [warn('there is no owner: nobody is told when agents go in circles or leave something undone', next)];
  }
  if (others.length === 0) return [ok(`@${owner} is the owner`)];
  const names = [owner, ...others].map((name) => `@${name}`).join(', ');
  return [
    bad(
      `${names} are all marked as owner, and there is one`,
      `take "owner" out of the other records in ${home.root}/agents`,
    ),
  ];
}
