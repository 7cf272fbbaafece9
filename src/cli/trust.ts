import { realpathSync } from 'node:fs';
import { parleyHome } from './env.ts';
import type { Env } from './env.ts';
import { changeTable, readTable } from './table-file.ts';

/** What the user said about a file that comes with a repository. `changed`: it was trusted, and is another text now. */
export type Trust = 'trusted' | 'changed' | 'unknown';

/** Path → SHA-256 of the text that was trusted. spec: c2c#repo */
function storePath(env: Env): string {
  return `${parleyHome(env)}/trusted.json`;
}

export function trustOf(env: Env, path: string, text: string): Trust {
  const known = readTable(storePath(env))[placeOf(path)];
  if (known === undefined) return 'unknown';
  return known === hashOf(text) ? 'trusted' : 'changed';
}

export function trust(env: Env, path: string, text: string): void {
  changeTable(storePath(env), (table) => ({ ...table, [placeOf(path)]: hashOf(text) }));
}

/** Returns false if it was not trusted. */
export function revokeTrust(env: Env, path: string): boolean {
  const place = placeOf(path);
  if (!(place in readTable(storePath(env)))) return false;
  changeTable(storePath(env), ({ [place]: _gone, ...rest }) => rest);
  return true;
}

/** Every path that was trusted, whatever stands there now. */
export function trustedPaths(env: Env): string[] {
  return Object.keys(readTable(storePath(env)));
}

/** The folder by its real path, so that a link to it is the same place; the file itself may be a link to another text. */
function placeOf(path: string): string {
  const folder = path.slice(0, path.lastIndexOf('/')) || '/';
  try {
    const real = realpathSync(folder);
    return `${real === '/' ? '' : real}${path.slice(path.lastIndexOf('/'))}`;
  } catch {
    return path;
  }
}

function hashOf(text: string): string {
  return new Bun.CryptoHasher('sha256').update(text).digest('hex');
}
