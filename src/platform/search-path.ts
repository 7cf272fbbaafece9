import type { Env } from '../core/env.ts';
import { existsSync, realpathSync } from 'node:fs';
import { isAbsolute } from 'node:path';

/** The folders in which the shell looks for programs. */
function searchPath(env: Env): string[] {
  return (env['PATH'] ?? '').split(':').filter((folder) => isAbsolute(folder) && existsSync(folder));
}

export function isOnPath(folder: string, env: Env): boolean {
  return existsSync(folder) && searchPath(env).some((one) => realpathSync(one) === realpathSync(folder));
}

/** The program that the shell would run under this name, or null. */
export function onPath(name: string, env: Env): string | null {
  return Bun.which(name, { PATH: searchPath(env).join(':') });
}
