import { tableIn } from '../settings/client-settings.ts';
import { isSession } from '../launch.ts';
import type { Launch, Launcher, LaunchOrder } from '../launch.ts';

/** Commands of OpenCode that begin no session of their own. */
const OTHER_COMMANDS = [
  'completion',
  'acp',
  'mcp',
  'attach',
  'debug',
  'providers',
  'auth',
  'agent',
  'upgrade',
  'uninstall',
  'models',
  'stats',
  'export',
  'import',
  'github',
  'pr',
  'session',
  'plugin',
  'plug',
  'db',
];
const SETTINGS = 'OPENCODE_CONFIG_CONTENT';

/** OpenCode 1.18 takes settings from a variable, and joins them with those in its files. */
export const opencodeLauncher: Launcher = {
  beginsSession: (args) => isSession(args, OTHER_COMMANDS),
  async prepare({ env, name, server }: LaunchOrder): Promise<Launch> {
    const launch = { added: [], canBeWoken: false, otherwise: 'mail waits until its model asks for it' };
    const given = settingsIn(env[SETTINGS]);
    if (given === null)
      return {
        ...launch,
        env: { ...env, PARLEY_AGENT: name },
        notes: [`${SETTINGS} is not JSON, so it is used as it is and the tools of Parley are left out`],
      };
    const { command, args: words, env: environment } = server;
    const parley = { type: 'local', command: [command, ...words], environment, enabled: true };
    const settings = { ...given, mcp: { ...tableIn(given['mcp']), parley } };
    return { ...launch, env: { ...env, PARLEY_AGENT: name, [SETTINGS]: JSON.stringify(settings) }, notes: [] };
  },
};

/** What the user put into the variable; null if it cannot be read. */
function settingsIn(text: string | undefined): Record<string, unknown> | null {
  if (!text) return {};
  try {
    return tableIn(JSON.parse(text));
  } catch {
    return null;
  }
}
