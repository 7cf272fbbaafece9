import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

/** Where the repository around this folder comes from, as its own settings say; undefined if there is none. Starts no git. */
export function gitOrigin(folder: string): string | undefined {
  const settings = settingsOf(folder);
  if (!settings) return undefined;
  try {
    const [, origin = ''] = /^\s*\[remote "origin"\]([^[]*)/m.exec(readFileSync(settings, 'utf8')) ?? [];
    return /^\s*url\s*=\s*"?(.*?)"?\s*$/m.exec(origin)?.[1];
  } catch {
    return undefined;
  }
}

function settingsOf(folder: string): string | undefined {
  for (let at = resolve(folder); ; at = dirname(at)) {
    const git = join(at, '.git');
    const found = statSync(git, { throwIfNoEntry: false });
    if (found?.isDirectory()) return join(git, 'config');
    if (found?.isFile()) return linkedSettings(at, git);
    if (at === dirname(at)) return undefined;
  }
}

/** A worktree or a submodule: `.git` names the folder, and a worktree's folder names the one with the settings. */
function linkedSettings(at: string, git: string): string | undefined {
  const named = /^gitdir:\s*(.+?)\s*$/m.exec(readFileSync(git, 'utf8'))?.[1];
  if (!named) return undefined;
  const folder = resolve(at, named);
  const common = join(folder, 'commondir');
  return join(existsSync(common) ? resolve(folder, readFileSync(common, 'utf8').trim()) : folder, 'config');
}
