import type { Env } from '../core/env.ts';
import { parleyHome, userHome } from '../platform/env.ts';
import { isCompiled } from '../platform/program.ts';
import { existsSync, realpathSync } from 'node:fs';
import { basename, join, resolve, sep } from 'node:path';
import { Refusal } from '../core/refusal.ts';
import { readInstalled } from './program-files.ts';

/** Cache folders of npx, bunx and pnpm dlx, which can be emptied at any time. */
const RUNNER_CACHE = /[/\\](?:_npx|bunx-[^/\\]*|dlx-[^/\\]*)[/\\]/;

/** The path by which a client can start this program later: the compiled one, or the wrapper of the npm package. */
export function stableProgram(env: Env, then: string): string {
  return refuseTemporary(isCompiled() ? process.execPath : join(import.meta.dir, '../../bin/parley'), env, then);
}

/**
 * Refuses a program that may be gone when a client starts it. A program below the user's home is accepted, even if that home is temporary:
 * the settings that name the program go with it. See `temporaryHome`.
 */
export function refuseTemporary(program: string, env: Env, then: string): string {
  if (!existsSync(program)) throw refusal(`${program} is not there`, `run \`npm ci\` in its folder, then \`${then}\``);
  if (RUNNER_CACHE.test(program))
    throw refusal(
      `${program} is in a folder that a package runner empties`,
      `install it (\`npm install -g ./parley-mail-<version>.tgz\`), then \`${then}\``,
    );
  const folder = temporaryFolder(program, env);
  if (folder === null || isBelow(program, userHome(env))) return program;
  throw refusal(`${program} is in the temporary folder ${folder}`, nextStep(program, env, then));
}

/** Will this folder outlive this shell and a reboot? Some tools add temporary folders to PATH. */
export function isLasting(path: string, env: Env): boolean {
  const isIn = (folder: string): boolean => path === folder || path.startsWith(`${folder}${sep}`);
  return (
    !RUNNER_CACHE.test(`${path}/`) && (isIn(userHome(env)) || ![...temporaryFolders(env), '/tmp', '/run'].some(isIn))
  );
}

/** The user's home if it is in a temporary folder, else null. Everything that is installed there goes with it. */
export function temporaryHome(env: Env): string | null {
  return temporaryFolder(userHome(env), env) === null ? null : userHome(env);
}

function refusal(what: string, next: string): Refusal {
  return new Refusal('invalid_request', `${what}, so a client cannot start it later; ${next}`);
}

/** What to run instead. It names the installed program by its path, because the shell may not find it, or may find the temporary one. */
function nextStep(program: string, env: Env, then: string): string {
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

/** The program that `parley self install` installed, if it still exists. */
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
