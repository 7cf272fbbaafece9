import { readFileSync, statSync } from 'node:fs';
import type { Env } from '../../env.ts';
import { gitTop } from '../../origin.ts';
import { trustOf } from '../../trust.ts';
import type { Trust } from '../../trust.ts';

/** What `.c2c/repo.json` of a repository says. It comes with the repository, so it counts only once the user trusts it. spec: c2c#repo */
export interface RepoFile {
  path: string;
  text: string;
  supervisors: string[];
  trust: Trust;
  /** Why it cannot be used at all, for people; null if it can. */
  trouble: string | null;
}

/** A file of settings is written by hand. */
const FILE_LIMIT = 64 * 1024;

export function repoFilePath(cwd: string): string {
  return `${gitTop(cwd) ?? cwd}/.c2c/repo.json`;
}

/** Null if there is none. */
export function readRepoFile(env: Env, path: string): RepoFile | null {
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found) return null;
  const unusable = (trouble: string): RepoFile => ({ path, text: '', supervisors: [], trust: 'unknown', trouble });
  // In a folder that several accounts can write to, any of them can leave one.
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
