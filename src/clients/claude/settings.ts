import { join, resolve } from 'node:path';
import { hasMember, readJson } from '../settings/jsonc.ts';
import { hooksInJson, member, tableIn, variables } from '../settings/client-settings.ts';
import type { ClientSettings, InstallTarget } from '../settings/client-settings.ts';

/** What a session does with messages of other programs: `accept`, `hold` or `refuse`. If unset, a session in bypass mode asks about each. */
export const INBOUND_KEY = 'crossSessionInbound';

/** Claude Code has hooks in the user's settings, the servers of a project in `.mcp.json`, and those of the user in `.claude.json`. */
export const claudeSettings: ClientSettings = {
  name: 'claude',
  title: 'Claude Code',
  binaries: ['claude'],
  folders: (target) => [claudeFolder(target)],
  serverFiles: (target, forProject) => [
    forProject
      ? join(target.project, '.mcp.json')
      : join(target.env['CLAUDE_CONFIG_DIR'] ? claudeFolder(target) : target.home, '.claude.json'),
  ],
  server: (name, { command, args, env }) =>
    member(['mcpServers', name], { type: 'stdio', command, args: [...args], ...variables('env', env) }),
  hooks: (target, hook) => hooksInJson(settingsFile(target), hook),
  allowRule(target, tool) {
    const value = `mcp__parley__${tool}`;
    return {
      path: settingsFile(target),
      content: { format: 'json', at: ['permissions', 'allow'], append: true, value },
      isThere(text) {
        const { allow } = tableIn(tableIn(readJson(text))['permissions']);
        return Array.isArray(allow) && ['mcp__parley', 'mcp__parley__*', value].some((rule) => allow.includes(rule));
      },
    };
  },
  inboundRule: (target) => ({
    path: settingsFile(target),
    content: member([INBOUND_KEY], 'accept'),
    // Any value means that the user has decided.
    isThere: (text) => hasMember(text, [INBOUND_KEY]),
  }),
  skills: (target) => join(claudeFolder(target), 'skills'),
  advice: (_target, profile) => [
    ...(profile.forProject
      ? ['Claude Code asks you once whether it may start the server of a project: answer it there']
      : []),
    profile.by === 'c2c'
      ? 'This does not wake an idle session; `c2c start claude` runs a session in tmux and wakes it'
      : 'Mail wakes an idle session, too: its hook starts `parley up` in the background (PARLEY_NO_DAEMON=1 forbids that)',
  ],
};

export function claudeFolder({ home, env }: Pick<InstallTarget, 'home' | 'env'>): string {
  return env['CLAUDE_CONFIG_DIR'] ? resolve(env['CLAUDE_CONFIG_DIR']) : join(home, '.claude');
}

function settingsFile(target: InstallTarget): string {
  return join(claudeFolder(target), 'settings.json');
}
