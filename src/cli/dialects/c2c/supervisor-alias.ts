import { Refusal } from '../../../protocol/refusal.ts';
import type * as Authority from '../../../sessions/authority.ts';
import type { Use } from '../../../sessions/authority.ts';
import { parleyHome, userHome } from '../../env.ts';
import type { Env } from '../../env.ts';
import { readTable } from '../../table-file.ts';
import { trustedPaths } from '../../trust.ts';
import { readRepoFile } from './repo-file.ts';

/** Path of a repository → aliases that the user named there. Kept in the home: a repository cannot bring it along. */
export function supervisorsStore(home: string): string {
  return `${home}/supervisors.json`;
}

/**
 * Refuses to act under the alias of a supervisor, of any repository, unless the user does it: a supervisor's word starts what a client
 * asked about. The working folder does not matter: a message reaches a broker from everywhere.
 */
export function refuseSupervisor(env: Env, alias: string, use: Use): void {
  if (!isSupervisor(env, alias)) return;
  // Read only here: every send asks, and few users have a supervisor.
  const { whyNotFor } = require('../../../sessions/authority.ts') as typeof Authority;
  const why = whyNotFor(env, use);
  if (why) throw new Refusal('not_yours', `"${alias}" answers for the user. ${why}. Use another alias.`);
}

export function isSupervisor(env: Env, alias: string): boolean {
  const homes = new Set([parleyHome(env), `${userHome(env)}/.parley`]);
  const named = [...homes].flatMap((home) => Object.values(readTable(supervisorsStore(home))).flatMap(namesOf));
  return [...named, ...trustedNames(env)].some((one) => one.toLowerCase() === alias.toLowerCase());
}

/** The texts of a list; of anything else none. */
export function namesOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === 'string') : [];
}

function trustedNames(env: Env): string[] {
  const paths = trustedPaths(env).filter((path) => path.endsWith('/.c2c/repo.json'));
  return paths
    .map((path) => readRepoFile(env, path))
    .flatMap((file) => (file?.trust === 'trusted' ? file.supervisors : []));
}
