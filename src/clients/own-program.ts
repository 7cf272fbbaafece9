import type { Env } from '../core/env.ts';
import { parleyHome, userHome } from '../platform/env.ts';
import { isCompiled } from '../platform/program.ts';
import { existsSync, realpathSync } from 'node:fs';
import { basename, join, resolve, sep } from 'node:path';
import { Refusal } from '../core/refusal.ts';
import { readInstalled } from './program-files.ts';

/** Folders that package runners empty at any time. */
const PASSING = /[/\\](?:_npx|bunx-[^/\\]*|dlx-[^/\\]*)[/\\]/;

/** This program as a client can start it tomorrow: the compiled one, or the wrapper that npm installed with the source. */
export function stableProgram(env: Env, then: string): string {
  return refuseTemporary(isCompiled() ? process.execPath : join(import.meta.dir, '../../bin/parley'), env, then);
}

/**
 * Refuses a program that will be gone when a client starts it. Below the user's home it is as lasting as the settings that name it,
 * even if that home is temporary: see `temporaryHome`.
 */
export function refuseTemporary(program: string, env: Env, then: string): string {
  if (!existsSync(program)) throw refusal(`${program} is not there`, `run \`npm ci\` in its folder, then \`${then}\``);
  if (PASSING.test(program))
    throw refusal(
      `${program} is in a folder that a package runner empties`,
      `install it (\`npm install -g ./parley-mail-<version>.tgz\`), then \`${then}\``,
    );
  const folder = temporaryFolder(program, env);
  if (folder === null || isBelow(program, userHome(env))) return program;
  throw refusal(`${program} is in the temporary folder ${folder}`, wayOut(program, env, then));
}

/** Will this path lead to something after the next start of the machine? Shells put folders on the search path that end with them. */
export function isLasting(path: string, env: Env): boolean {
  const isIn = (folder: string): boolean => path === folder || path.startsWith(`${folder}${sep}`);
  return !PASSING.test(`${path}/`) && (isIn(userHome(env)) || ![...temporaryFolders(env), '/tmp', '/run'].some(isIn));
}

/** The user's home, if it is in a temporary folder: then everything that is installed there goes with it. */
export function temporaryHome(env: Env): string | null {
  return temporaryFolder(userHome(env), env) === null ? null : userHome(env);
}

function refusal(what: string, next: string): Refusal {
  return new Refusal('invalid_request', `${what}, so a client cannot start it later; ${next}`);
}

/** What to run instead. It names the installed program by its path: the shell may not find it, or find the temporary one again. */
function wayOut(program: string, env: Env, then: string): string {
  const words = then.replace(/^parley /, '');
  const installed = installedProgram(env);
  if (installed !== null) return `run the installed one: \`${installed} ${words}\``;
  const last = `\`${join(userHome(env), '.local/bin/parley')} ${words}\``;
  if (isCompiled()) return `run \`${program} self install\`, then ${last}`;
  const root = resolve(program, '../..');
  if (existsSync(join(root, 'scripts')))
    return `run \`npm run build && dist/parley self install\` in ${root}, then ${last}`;
  return `install it (\`npm install -g ./parley-mail-<version>.tgz\`), then \`${then}\``;
}

/** Where `parley self install` put the program, if it is still there. */
function installedProgram(env: Env): string | null {
  const { files } = readInstalled(join(parleyHome(env), 'self.json'));
  return files.find(({ path }) => basename(path) === 'parley' && existsSync(path))?.path ?? null;
}

function temporaryFolder(path: string, env: Env): string | null {
  return temporaryFolders(env).find((folder) => isBelow(path, folder)) ?? null;
}

function temporaryFolders(env: Env): string[] {
  return [env['TMPDIR'] || '/tmp', '/var/folders', '/private/var/folders'];
}

function isBelow(path: string, folder: string): boolean {
  return real(path).startsWith(`${real(folder)}${sep}`);
}

function real(path: string): string {
  return existsSync(path) ? realpathSync(path) : path;
}
