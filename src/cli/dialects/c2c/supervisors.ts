import { realpathSync } from 'node:fs';
import { parleyHome } from '../../env.ts';
import type { Env } from '../../env.ts';
import { gitTop } from '../../origin.ts';
import { changeTable, readTable } from '../../table-file.ts';
import { readRepoFile, repoFilePath } from './repo-file.ts';
import { namesOf, supervisorsStore } from './supervisor-alias.ts';

/** Who may answer for the user in the repository around this folder: whom the user named, and whom a trusted file names. spec: c2c#repo */
export function supervisors(env: Env, cwd: string): string[] {
  const named = namesOf(readTable(supervisorsStore(parleyHome(env)))[repositoryOf(cwd)]);
  const file = readRepoFile(env, repoFilePath(cwd));
  return [...new Set([...named, ...(file?.trust === 'trusted' ? file.supervisors : [])])];
}

/** Names them for this repository, in the place of those before. An empty list names nobody. */
export function nameSupervisors(env: Env, cwd: string, names: readonly string[]): void {
  const repository = repositoryOf(cwd);
  const entry = names.length > 0 ? { [repository]: names } : {};
  changeTable(supervisorsStore(parleyHome(env)), ({ [repository]: _before, ...others }) => ({ ...others, ...entry }));
}

function repositoryOf(cwd: string): string {
  return realpathSync(gitTop(cwd) ?? cwd);
}
