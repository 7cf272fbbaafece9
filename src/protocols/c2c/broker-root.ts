import type { Env } from '../../core/env.ts';
import { readdirSync, realpathSync } from 'node:fs';
import { ifThere } from '../../core/disk.ts';
import { RegistryFile } from './registry.ts';
import { inShell } from '../../clients/shell-word.ts';
import { brokersFolder } from '../../platform/env.ts';
import { gitOrigin, gitTop } from '../../platform/git.ts';
import { parseAddress } from '../../core/address.ts';
import { Refusal } from '../../core/refusal.ts';

/** The broker directory for this folder: the one that the environment names, else one per repository. It need not exist. spec: c2c#root */
export function brokerRoot(env: Env, cwd: string): string {
  const named = env['C2C_MCP_BROKER_ROOT'] || env['C2C_BROKER_ROOT'];
  if (named) return absolute(named, cwd);
  return `${brokersFolder(env)}/repos/${repoFingerprint(cwd)}/broker`;
}

/** Identifies a repository: the same for all clones of one upstream and for their worktrees. spec: c2c#root */
export function repoFingerprint(cwd: string): string {
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

/** The most brokers that the error names. */
const MOST = 3;

/** A refusal that names the command for a c2c session at the broker of another folder; null if no such session has this alias. */
export function inOtherBroker(env: Env, own: string | undefined, text: string): Refusal | null {
  const address = parseAddress(text);
  if (address.kind !== 'name' || (address.home !== undefined && address.home !== 'c2c')) return null;
  const { name } = address;
  const roots = brokerRoots(env).filter((root) => root !== own && hasAlias(root, name));
  if (roots.length === 0) return null;
  const lines = roots.slice(0, MOST).map((root) => `C2C_MCP_BROKER_ROOT=${inShell(root)} parley send @${name}%c2c "…"`);
  return new Refusal(
    'unknown_recipient',
    `@${name} is a session of c2c at the broker of another folder; type: ${lines.join(' or ')} (\`parley reply\` works in the same way)`,
  );
}

function brokerRoots(env: Env): string[] {
  const repos = `${brokersFolder(env)}/repos`;
  return (ifThere(() => readdirSync(repos)) ?? []).map((name) => `${repos}/${name}/broker`);
}

/** Reads only the registry, without opening the broker. */
function hasAlias(root: string, name: string): boolean {
  try {
    return new RegistryFile(root).rowOf(name) !== undefined;
  } catch {
    return false;
  }
}
