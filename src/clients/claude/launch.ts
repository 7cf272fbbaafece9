import { hasOption, isSession, isUuid } from '../launch.ts';
import type { Launch, Launcher, LaunchOrder } from '../launch.ts';
import { existsSync, readFileSync } from 'node:fs';
import { userHome } from '../../platform/env.ts';
import { tableIn } from '../settings/client-settings.ts';
import { readJson } from '../settings/jsonc.ts';
import { claude } from './client.ts';
import { claudeSettings, INBOUND_KEY } from './settings.ts';

/** Commands of Claude Code that do not begin a session. */
const OTHER_COMMANDS = [
  'agents',
  'attach',
  'auth',
  'auto-mode',
  'doctor',
  'gateway',
  'import',
  'install',
  'logs',
  'mcp',
  'plugin',
  'plugins',
  'purge',
  'respawn',
  'rm',
  'setup-token',
  'stop',
  'kill',
  'ultrareview',
  'update',
  'upgrade',
];

/**
 * Claude Code 2.1, as seen with the real client:
 * - A hook that has the same command as one in the settings runs once.
 * - A server of `--mcp-config` replaces one of the same name in the settings. All `--mcp-config` options are used.
 * - Of several `--settings` options only the last counts.
 * - Hooks, servers and shell commands get the environment.
 */
export const claudeLauncher: Launcher = {
  beginsSession: (args) => isSession(args, OTHER_COMMANDS),
  sessionIn(args) {
    const at = args.findIndex((word) => /^(-r|--resume)(=|$)/.test(word));
    const id = at < 0 ? undefined : (args[at]?.split('=')[1] ?? args[at + 1]);
    return id !== undefined && isUuid(id) ? id : undefined;
  },
  holdsMessages(args, { env, folder }) {
    if (hasOption(args, '-p', '--print')) return false;
    const target = { home: userHome(env), env, project: folder };
    const rule = claudeSettings.inboundRule?.(target);
    try {
      const settings = rule && existsSync(rule.path) ? readFileSync(rule.path, 'utf8') : '{}';
      return isBypass(args, settings) && !rule?.isThere(settings);
    } catch {
      // The settings cannot be read, and Claude Code reports that itself.
      return false;
    }
  },
  async prepare(order: LaunchOrder): Promise<Launch> {
    const { args, env, name, inbound = false } = order;
    const isOneShot = hasOption(args, '-p', '--print');
    const hasSettings = hasOption(args, '--settings');
    return {
      // With `=`, because the option otherwise takes all following arguments, even a prompt.
      added: [`--mcp-config=${servers(order)}`, ...(hasSettings ? [] : [`--settings=${hooks(order)}`])],
      env: { ...env, PARLEY_AGENT: name },
      canBeWoken: !isOneShot,
      otherwise: hasSettings
        ? 'mail waits until its model asks for it'
        : isOneShot
          ? 'mail comes while it works'
          : 'mail comes with your next prompt, and while it works',
      notes: [
        ...(hasSettings
          ? [
              "Claude Code uses one --settings only, so yours is used and Parley's hook is left out; `parley install claude` adds it",
            ]
          : []),
        ...(!(inbound && !hasSettings) && claudeLauncher.holdsMessages?.(args, order)
          ? [
              'in bypass mode Claude Code asks you about each message; to let them in: parley install claude --inbound allow',
            ]
          : []),
      ],
    };
  },
};

function servers({ server: { command, args, env } }: LaunchOrder): string {
  return JSON.stringify({ mcpServers: { parley: { type: 'stdio', command, args, env } } });
}

/** Does the session run in bypass mode? Only then Claude Code asks about messages. */
function isBypass(args: readonly string[], settings: string): boolean {
  if (hasOption(args, '--dangerously-skip-permissions')) return true;
  const at = args.findIndex((word) => /^--permission-mode(=|$)/.test(word));
  if (at >= 0) return (args[at]?.split('=')[1] ?? args[at + 1]) === 'bypassPermissions';
  return tableIn(tableIn(readJson(settings))['permissions'])['defaultMode'] === 'bypassPermissions';
}

function hooks({ hookLine, inbound = false }: LaunchOrder): string {
  const { registers = [], timeout } = claude.hook ?? {};
  const entry = { hooks: [{ type: 'command', command: hookLine, timeout }] };
  const consent = inbound ? { [INBOUND_KEY]: 'accept' } : {};
  return JSON.stringify({ ...consent, hooks: Object.fromEntries(registers.map((event) => [event, [entry]])) });
}
