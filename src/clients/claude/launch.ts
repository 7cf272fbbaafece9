import { hasOption, isSession } from '../launch.ts';
import type { Launch, Launcher, LaunchOrder } from '../launch.ts';
import { claude } from './client.ts';

/** Commands of Claude Code that begin no session. */
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
 * Claude Code 2.1. Seen with the real client: a hook with the same command as one in the settings runs once; a server of
 * `--mcp-config` takes the place of one with its name in the settings, and several `--mcp-config` are all used; of several
 * `--settings` only the last counts. Hooks, servers and shell commands get the environment.
 */
export const claudeLauncher: Launcher = {
  beginsSession: (args) => isSession(args, OTHER_COMMANDS),
  async prepare(order: LaunchOrder): Promise<Launch> {
    const { args, env, name } = order;
    const isOneShot = hasOption(args, '-p', '--print');
    const hasSettings = hasOption(args, '--settings');
    return {
      // Written with `=`: the option takes all words that follow it, a prompt too.
      added: [`--mcp-config=${servers(order)}`, ...(hasSettings ? [] : [`--settings=${hooks(order)}`])],
      env: { ...env, PARLEY_AGENT: name },
      canBeWoken: !isOneShot,
      otherwise: hasSettings
        ? 'mail waits until its model asks for it'
        : isOneShot
          ? 'mail comes while it works'
          : 'mail comes with your next prompt, and while it works',
      notes: hasSettings
        ? [
            'Claude Code uses one --settings only, so yours is used and the hook is left out; `parley install claude` adds it',
          ]
        : [],
    };
  },
};

function servers({ server: { command, args, env } }: LaunchOrder): string {
  return JSON.stringify({ mcpServers: { parley: { type: 'stdio', command, args, env } } });
}

function hooks({ hookLine }: LaunchOrder): string {
  const { registers = [], timeout } = claude.hook ?? {};
  const entry = { hooks: [{ type: 'command', command: hookLine, timeout }] };
  return JSON.stringify({ hooks: Object.fromEntries(registers.map((event) => [event, [entry]])) });
}
