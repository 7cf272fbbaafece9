import { chmodSync, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Home } from '../../core/mail/workspace.ts';
import { counted, on } from './finding.ts';
import type { Finding } from './finding.ts';

/** What others could read or change. Bodies are private: folders are for their owner only, and so are files. */
export function examinePermissions({ label, root }: Home, fix: boolean): Finding {
  const { ok, warn, bad, fixed } = on(`home ${label}`);
  const open = openBelow(root);
  const [example] = open;
  if (!example) return ok('no other user can read or change it');
  if (fix && close(open))
    return fixed(
      `${counted(open.length, 'file or folder was', 'files and folders were')} open to other users and ${open.length === 1 ? 'is' : 'are'} private now`,
    );
  const what = `${counted(open.length, 'file or folder', 'files and folders')} can be read or changed by other users, such as ${example.path} (${example.mode.toString(8)})`;
  const next = fix
    ? 'their permissions could not be changed: are they yours?'
    : '`parley doctor --fix` makes them private';
  // Nobody gets at what is below a closed folder. Other Backchannel programs leave their home open.
  return example.path === root && label === 'parley' ? bad(what, next) : warn(what, next);
}

interface Open {
  path: string;
  mode: number;
}

/** Everything from here down that is open to group or others, the folder itself first. Links are not followed. */
function openBelow(path: string): Open[] {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (!stat || stat.isSymbolicLink()) return [];
  const mode = stat.mode & 0o777;
  const own = (mode & 0o077) === 0 ? [] : [{ path, mode }];
  return stat.isDirectory() ? [...own, ...names(path).flatMap((name) => openBelow(join(path, name)))] : own;
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** True if all could be closed. */
function close(open: Open[]): boolean {
  try {
    for (const { path, mode } of open) chmodSync(path, mode & 0o700);
    return true;
  } catch {
    return false;
  }
}
