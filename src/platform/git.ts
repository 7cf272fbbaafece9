import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

/** The URL of `origin` in the settings of the repository around this folder; undefined if there is none. Does not run git. */
export function gitOrigin(folder: string): string | undefined {
  const found = repositoryOf(folder);
  if (!found) return undefined;
  try {
    return originIn(readFileSync(found.settings, 'utf8'));
  } catch {
    return undefined;
  }
}

/** The top folder of the repository or worktree around this folder; undefined if there is none. */
export function gitTop(folder: string): string | undefined {
  return repositoryOf(folder)?.top;
}

/** The URL of `origin`. If there are several, the last one counts, as in git. */
function originIn(settings: string): string | undefined {
  let section = '';
  let origin: string | undefined;
  for (const line of settings.split(/\r?\n/)) {
    const head = /^\s*\[\s*([^\s"\]]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\](.*)$/.exec(line);
    if (head) section = `${(head[1] ?? '').toLowerCase()} ${(head[2] ?? '').replaceAll(/\\(.)/g, '$1')}`;
    if (section !== 'remote origin') continue;
    const [, url] = /^\s*url\s*=\s*(.*)$/i.exec(head ? (head[3] ?? '') : line) ?? [];
    if (url !== undefined) origin = valueOf(url);
  }
  return origin || undefined;
}

/** Parses a value of git's settings: removes quotes, and stops at a comment. */
function valueOf(text: string): string {
  let value = '';
  let isQuoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (char === '"') isQuoted = !isQuoted;
    else if (char === '\\') value += text[(at += 1)] ?? '';
    else if (!isQuoted && (char === '#' || char === ';')) break;
    else value += char;
  }
  return value.trim();
}

function repositoryOf(folder: string): { top: string; settings: string } | undefined {
  for (let top = resolve(folder); ; top = dirname(top)) {
    const git = join(top, '.git');
    const found = statSync(git, { throwIfNoEntry: false });
    if (found?.isDirectory()) return { top, settings: join(git, 'config') };
    const settings = found?.isFile() ? linkedSettings(top, git) : undefined;
    if (settings) return { top, settings };
    if (found?.isFile() || top === dirname(top)) return undefined;
  }
}

/** The settings of a worktree or a submodule. Its `.git` file names a folder; a worktree's folder names the folder with the settings. */
function linkedSettings(at: string, git: string): string | undefined {
  const named = /^gitdir:\s*(.+?)\s*$/m.exec(readFileSync(git, 'utf8'))?.[1];
  if (!named) return undefined;
  const folder = resolve(at, named);
  const common = join(folder, 'commondir');
  return join(existsSync(common) ? resolve(folder, readFileSync(common, 'utf8').trim()) : folder, 'config');
}
