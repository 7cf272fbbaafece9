import type { Env } from '../core/env.ts';
import { existsSync, mkdirSync, readFileSync, realpathSync } from 'node:fs';
import { Refusal } from '../core/refusal.ts';
import { explained } from '../core/disk.ts';
import { locked } from './lock-file.ts';
import { parleyHome } from './env.ts';
import { replaceFile } from './files.ts';

/** A small JSON object in Parley's home that only the user's own commands change. */
type Table = Record<string, unknown>;

/** Reads a table. A missing or broken one is empty: an unreadable file must not make anything trusted. */
export function readTable(path: string): Table {
  try {
    return tableIn(readFileSync(path, 'utf8')) ?? {};
  } catch {
    return {};
  }
}

/** Changes a table under a lock: a reader sees the old or the new one, and no change is lost. An unchanged table is not written. */
export function changeTable(path: string, change: (table: Table) => Table): void {
  try {
    mkdirSync(path.slice(0, path.lastIndexOf('/')), { recursive: true, mode: 0o700 });
    locked(`${path}.lock`, () => {
      const before = existsSync(path) ? tableIn(readFileSync(path, 'utf8')) : {};
      if (!before) throw new Refusal('bad_config', `${path} is not a JSON object; correct or remove it first`);
      const after = change(before);
      if (Bun.deepEquals(before, after)) return;
      replaceFile(path, `${JSON.stringify(after, null, 2)}\n`, { flush: true });
    });
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw explained(error, path, 'nothing was changed');
  }
}

function tableIn(text: string): Table | null {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : null;
  } catch {
    return null;
  }
}

/** Whether the user trusts a file that comes with a repository. `changed`: it was trusted with another text. */
export type Trust = 'trusted' | 'changed' | 'unknown';

/** The table of trusted files: path → SHA-256 of the trusted text. spec: c2c#repo */
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

/** All trusted paths, also if their files have changed or are gone. */
export function trustedPaths(env: Env): string[] {
  return Object.keys(readTable(storePath(env)));
}

/** The key of a file: its folder's real path and its name. A link in the folder's path makes no other key; the file's own link is not followed. */
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
