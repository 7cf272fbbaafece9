import { existsSync, realpathSync } from 'node:fs';
import { join, sep } from 'node:path';
import { Refusal } from '../protocol/refusal.ts';
import { isCompiled } from './program.ts';
import type { Env } from './env.ts';

/** Folders that package runners empty whenever they like. */
const PASSING = /[/\\](?:_npx|bunx-[^/\\]*|dlx-[^/\\]*)[/\\]/;

/** This program as others can start it tomorrow: the compiled one, or else the wrapper that npm brought along with the source. */
export function lastingProgram(env: Env, then: string): string {
  return refuseTemporary(isCompiled() ? process.execPath : join(import.meta.dir, '../../bin/parley'), env, then);
}

/** What is written into a client's settings must still be there when the client starts. */
export function refuseTemporary(program: string, env: Env, then: string): string {
  const folders = [env['TMPDIR'] || '/tmp', '/var/folders', '/private/var/folders'];
  const isTemporary = folders.some((folder) => program.startsWith(`${real(folder)}${sep}`)) || PASSING.test(program);
  if (!isTemporary && existsSync(program)) return program;
  throw new Refusal(
    'invalid_request',
    `${program} will not stay where it is, so no client can be told to start it; install it (parley self install), then run \`${then}\``,
  );
}

function real(folder: string): string {
  return existsSync(folder) ? realpathSync(folder) : folder;
}
