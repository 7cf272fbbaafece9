import type { Env } from '../../core/env.ts';
import { readFileSync, realpathSync, statSync } from 'node:fs';
import { parleyHome, userHome } from '../../platform/env.ts';
import { gitTop } from '../../platform/git.ts';
import { changeTable, readTable, trustOf, trustedPaths } from '../../platform/trust.ts';
import type { Trust } from '../../platform/trust.ts';
import { Refusal } from '../../core/refusal.ts';
import { whyNotFor } from '../../platform/authority.ts';
import type { Use } from '../../platform/authority.ts';

/** The file with the supervisors that the user named: path of a repository → aliases. It is in the home, so a repository cannot bring its own. */
function supervisorsStore(home: string): string {
  return `${home}/supervisors.json`;
}

/**
 * Refuses to act under the alias of a supervisor, unless the user does it: the answer of a supervisor approves what a client asks. Supervisors of
 * every repository count, because a message can reach a broker from any folder.
 */
export function refuseSupervisor(env: Env, alias: string, use: Use): void {
  if (!isSupervisor(env, alias)) return;
  const why = whyNotFor(env, use);
  if (why) throw new Refusal('not_yours', `"${alias}" answers for the user. ${why}. Use another alias.`);
}

export function isSupervisor(env: Env, alias: string): boolean {
  const homes = new Set([parleyHome(env), `${userHome(env)}/.parley`]);
  const named = [...homes].flatMap((home) => Object.values(readTable(supervisorsStore(home))).flatMap(namesOf));
  return [...named, ...trustedNames(env)].some((one) => one.toLowerCase() === alias.toLowerCase());
}

/** The texts in a list. Empty for a value that is not a list. */
function namesOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === 'string') : [];
}

function trustedNames(env: Env): string[] {
  const paths = trustedPaths(env).filter((path) => path.endsWith('/.c2c/repo.json'));
  return paths
    .map((path) => readRepoFile(env, path))
    .flatMap((file) => (file?.trust === 'trusted' ? file.supervisors : []));
}

/** The aliases that may answer for the user in this folder's repository: those that the user named, and those in a trusted file. spec: c2c#repo */
export function supervisors(env: Env, cwd: string): string[] {
  const named = namesOf(readTable(supervisorsStore(parleyHome(env)))[repositoryOf(cwd)]);
  const file = readRepoFile(env, repoFilePath(cwd));
  return [...new Set([...named, ...(file?.trust === 'trusted' ? file.supervisors : [])])];
}

/** Replaces the supervisors of this repository. An empty list removes them all. */
export function nameSupervisors(env: Env, cwd: string, names: readonly string[]): void {
  const repository = repositoryOf(cwd);
  const entry = names.length > 0 ? { [repository]: names } : {};
  changeTable(supervisorsStore(parleyHome(env)), ({ [repository]: _before, ...others }) => ({ ...others, ...entry }));
}

function repositoryOf(cwd: string): string {
  return realpathSync(gitTop(cwd) ?? cwd);
}

/** The content of a repository's `.c2c/repo.json`. It comes with the repository, so it counts only after the user trusts it. spec: c2c#repo */
export interface RepoFile {
  path: string;
  text: string;
  supervisors: string[];
  trust: Trust;
  /** Why the file cannot be used, for people; null if it can. */
  trouble: string | null;
}

/** The largest settings file, in bytes: people write it by hand. */
const FILE_LIMIT = 64 * 1024;

export function repoFilePath(cwd: string): string {
  return `${gitTop(cwd) ?? cwd}/.c2c/repo.json`;
}

/** Reads the file; null if there is none. */
export function readRepoFile(env: Env, path: string): RepoFile | null {
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found) return null;
  const unusable = (trouble: string): RepoFile => ({ path, text: '', supervisors: [], trust: 'unknown', trouble });
  // In a folder that several accounts can write to, another account could leave this file.
  if (found.uid !== process.getuid?.() && found.uid !== 0) return unusable('it belongs to another account');
  if ((found.mode & 0o002) !== 0) return unusable('every account can write it: chmod o-w it');
  if (!found.isFile() || found.size > FILE_LIMIT) return unusable(`it is no file of at most ${FILE_LIMIT} bytes`);
  try {
    const text = readFileSync(path, 'utf8');
    const values = JSON.parse(text) as unknown;
    if (typeof values !== 'object' || values === null || Array.isArray(values)) return unusable('it is no JSON object');
    return { path, text, supervisors: supervisorsIn({ ...values }), trust: trustOf(env, path, text), trouble: null };
  } catch (error) {
    return unusable(error instanceof SyntaxError ? 'it is no JSON' : String(error));
  }
}

function supervisorsIn({ supervisors, permission_supervisors: others }: Record<string, unknown>): string[] {
  return [supervisors, others]
    .flatMap((list) => (Array.isArray(list) ? list : []))
    .filter((one) => typeof one === 'string');
}
