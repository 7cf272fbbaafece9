import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

/** Where the repository around this folder comes from, as its own settings say; undefined if there is none. Starts no git. */
export function gitOrigin(folder: string): string | undefined {
  const found = repositoryOf(folder);
  if (!found) return undefined;
  try {
    return originIn(readFileSync(found.settings, 'utf8'));
  } catch {
    return undefined;
  }
}

/** The topmost folder of the repository, or of the worktree, around this one; undefined if there is none. */
export function gitTop(folder: string): string | undefined {
  return repositoryOf(folder)?.top;
}

/** As git reads it: of several, the last one counts. */
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

/** A value of git's settings: quotes come off, a comment ends it. */
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

/** A worktree or a submodule: `.git` names the folder, and a worktree's folder names the one with the settings. */
function linkedSettings(at: string, git: string): string | undefined {
  const named = /^gitdir:\s*(.+?)\s*$/m.exec(readFileSync(git, 'utf8'))?.[1];
  if (!named) return undefined;
  const folder = resolve(at, named);
  const common = join(folder, 'commondir');
  return join(existsSync(common) ? resolve(folder, readFileSync(common, 'utf8').trim()) : folder, 'config');
}
