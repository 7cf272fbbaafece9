import { resolve } from 'node:path';
import { parleyHome, userHome } from '../../platform/env.ts';
import { tableIn } from '../settings/client-settings.ts';
import { isSession } from '../launch.ts';
import type { Launch, Launcher, LaunchOrder } from '../launch.ts';
import { hasPackage, writePlugin } from './plugin.ts';
import { opencodeFolder } from './settings.ts';

/** Commands of OpenCode that do not begin a session. */
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
/** Commands that begin a session without a window, in the current folder. */
const NO_WINDOW = ['run', 'serve', 'web'];
const SETTINGS = 'OPENCODE_CONFIG_CONTENT';
const WAITS = 'mail waits until its model asks for it';

/** OpenCode 1.18 merges settings from an environment variable into those of its files. Parley adds its server and plugin there. */
export const opencodeLauncher: Launcher = {
  beginsSession: (args) => isSession(args, OTHER_COMMANDS),
  folderIn: ([first = '']) => (first.startsWith('-') || NO_WINDOW.includes(first) ? undefined : first || undefined),
  sessionIn(args) {
    const at = args.findIndex((word) => /^(-s|--session)(=|$)/.test(word));
    const word = args[at] ?? '';
    return at < 0 ? undefined : word.includes('=') ? word.slice(word.indexOf('=') + 1) : args[at + 1];
  },
  async prepare({ args, env, name, server }: LaunchOrder): Promise<Launch> {
    const canBeWoken = !args.includes('--pure') && !env['OPENCODE_PURE'];
    const given = settingsIn(env[SETTINGS]);
    if (given === null)
      return {
        added: [],
        env: { ...env, PARLEY_AGENT: name },
        canBeWoken: false,
        otherwise: WAITS,
        notes: [
          `${SETTINGS} is not JSON, so it stays as it is and the tools of Parley are left out; correct it to get them`,
        ],
      };
    const { command, args: words, env: environment } = server;
    const parley = { type: 'local', command: [command, ...words], environment, enabled: true };
    const theirs: unknown[] = Array.isArray(given['plugin']) ? given['plugin'] : [];
    const settings = {
      ...given,
      mcp: { ...tableIn(given['mcp']), parley },
      ...(canBeWoken && { plugin: [...theirs, writePlugin(resolve(parleyHome(env)))] }),
    };
    const isSlow = canBeWoken && !hasPackage(opencodeFolder({ home: userHome(env), env }));
    return {
      added: [],
      env: { ...env, PARLEY_AGENT: name, PARLEY_RUN_PID: String(process.pid), [SETTINGS]: JSON.stringify(settings) },
      canBeWoken,
      otherwise: WAITS,
      notes: isSlow ? [SLOW] : [],
    };
  },
};

const SLOW =
  'OpenCode fetches its package for plugins now, which takes half a minute, or well over a minute without the network; ' +
  '`parley install opencode` avoids that';

/** The user's settings in the variable; null if they are not JSON. */
function settingsIn(text: string | undefined): Record<string, unknown> | null {
  if (!text) return {};
  try {
    return tableIn(JSON.parse(text));
  } catch {
    return null;
  }
}
