import { realpathSync } from 'node:fs';
import type { Env } from '../../env.ts';
import { brokersFolder } from '../../env.ts';
import { gitOrigin, gitTop } from '../../origin.ts';

/** Where the broker of this folder is: named, or one per repository. Whether it exists is not asked. spec: c2c#root */
export function brokerRoot(env: Env, cwd: string): string {
  const named = env['C2C_MCP_BROKER_ROOT'] || env['C2C_BROKER_ROOT'];
  if (named) return absolute(named, cwd);
  return `${brokersFolder(env)}/repos/${fingerprint(cwd)}/broker`;
}

/** The same for all clones of one upstream, and for their worktrees. spec: c2c#root */
export function fingerprint(cwd: string): string {
  const top = gitTop(cwd);
  if (top === undefined) return 'default';
  return new Bun.CryptoHasher('sha256')
    .update(gitOrigin(cwd) ?? realpathSync(top))
    .digest('hex')
    .slice(0, 12);
}

function absolute(path: string, cwd: string): string {
  return withoutSlash(path.startsWith('/') ? path : `${withoutSlash(cwd)}/${path}`);
}

function withoutSlash(path: string): string {
  return path.replace(/(?<=.)\/+$/, '');
}
