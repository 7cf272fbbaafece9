import { lstatSync, mkdirSync, openSync, closeSync, fstatSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { codeOf } from '../core/disk.ts';
import { Refusal } from '../core/refusal.ts';

const NAME = /^[a-z]+-[0-9a-f-]+\.[a-z]+$/;
const KEEP_MS = 7 * 24 * 3600_000;

/**
 * Saves a file in `.ccc` in a session's folder, where its client may read it, and returns its path. Only this user can read it. It is kept
 * for 7 days. A part with an `offset` is appended, and must begin where the last part ended.
 *
 * The folder may be a cloned repository, so `.ccc` must not be a link, and no link in it is followed when a file is made.
 */
export function saveClientFile(folder: string, name: string, bytes: Uint8Array, offset = 0): string {
  if (!NAME.test(name))
    throw new Refusal(
      'invalid_request',
      `"${name.slice(0, 60)}" is not a valid file name here; use a name like photo-1a2b.jpg`,
    );
  const place = `${folder}/.ccc`;
  const path = `${place}/${name}`;
  if (offset === 0) prepare(place);
  const fd = openSync(path, offset === 0 ? 'wx' : 'a', 0o600);
  try {
    if (fstatSync(fd).size !== offset) throw new Refusal('invalid_request', `a part of ${name} is missing`);
    writeFileSync(fd, bytes);
  } finally {
    closeSync(fd);
  }
  return path;
}

function prepare(place: string): void {
  mkdirSync(place, { recursive: true, mode: 0o700 });
  if (!lstatSync(place).isDirectory())
    throw new Refusal('invalid_request', `${place} is not a folder; remove it first`);
  try {
    // Keep the files out of the project's commits.
    writeFileSync(`${place}/.gitignore`, '*\n', { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  }
  for (const name of readdirSync(place)) {
    const stat = NAME.test(name) ? lstatSync(`${place}/${name}`, { throwIfNoEntry: false }) : undefined;
    if (stat && Date.now() - stat.mtimeMs > KEEP_MS) rmSync(`${place}/${name}`, { force: true });
  }
}
