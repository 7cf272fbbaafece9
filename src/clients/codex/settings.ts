import { join, resolve } from 'node:path';
import { inToml } from '../settings/toml.ts';
import { hooksInJson } from '../settings/client-settings.ts';
import type { ClientSettings, InstallTarget, Server } from '../settings/client-settings.ts';

/** Codex has servers in TOML, for all projects at once, and hooks in a file of their own. It runs only hooks that the user trusts. */
export const codexSettings: ClientSettings = {
  name: 'codex',
  title: 'Codex',
  binaries: ['codex'],
  folders: (target) => [codexFolder(target)],
  serverFiles: (target) => [configFile(target)],
  server(name, server) {
    const at = ['mcp_servers', name];
    return { format: 'toml', at, block: serverBlock(at.join('.'), server) };
  },
  hooks: (target, hook) => hooksInJson(join(codexFolder(target), 'hooks.json'), hook),
  allowRule(target, tool) {
    const at = ['mcp_servers', 'parley', 'tools', tool];
    return {
      path: configFile(target),
      content: { format: 'toml', at, block: `[${at.join('.')}]\napproval_mode = "approve"\n` },
      isThere: (text) =>
        inToml(text, [...at, 'approval_mode']) === 'approve' ||
        inToml(text, ['mcp_servers', 'parley', 'default_tools_approval_mode']) === 'approve',
    };
  },
  skills: (target) => join(codexFolder(target), 'skills'),
  instructions: (target) => join(codexFolder(target), 'AGENTS.md'),
  advice: (target, profile) => [
    profile.hooks.length > 0
      ? 'Codex asks at its next start whether these hooks may run, and runs none before you allow it; `codex exec` silently skips them'
      : `Hooks were not added${profile.by === 'c2c' ? ': Codex asks you to trust each one. To add them, and then be asked: --hooks' : '; mail waits until its model asks for it'}`,
    ...(profile.forProject ? [`Codex has no settings of a project for this: it is in ${codexFolder(target)}`] : []),
  ],
};

export function codexFolder({ home, env }: Pick<InstallTarget, 'home' | 'env'>): string {
  return env['CODEX_HOME'] ? resolve(env['CODEX_HOME']) : join(home, '.codex');
}

function configFile(target: InstallTarget): string {
  return join(codexFolder(target), 'config.toml');
}

/** A JSON string without control characters is a TOML string. */
function serverBlock(table: string, { command, args, env }: Server): string {
  const words = args.map((word) => JSON.stringify(word)).join(', ');
  const lines = Object.entries(env).map(([name, value]) => `${name} = ${JSON.stringify(value)}\n`);
  const first = `[${table}]\ncommand = ${JSON.stringify(command)}\nargs = [${words}]\n`;
  return lines.length === 0 ? first : `${first}\n[${table}.env]\n${lines.join('')}`;
}
