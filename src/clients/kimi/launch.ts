import { userHome } from '../../platform/env.ts';
import { hasHook, hasOption, isSession } from '../launch.ts';
import type { Launch, Launcher, LaunchOrder } from '../launch.ts';
import { kimiSessionIn } from './held.ts';
import { kimiHome } from './record.ts';

/** Commands of Kimi that begin no session in this terminal. */
const OTHER_COMMANDS = [
  'export',
  'fork',
  'provider',
  'session',
  'acp',
  'web',
  'server',
  'rc',
  'remote',
  'login',
  'doctor',
  'vis',
  'migrate',
  'upgrade',
];

/**
 * Kimi 2.1 reads hooks and MCP servers only from its settings files, so Parley adds nothing for one session. The process that holds the
 * terminal types the mail. After `parley install kimi`, the hook and the tools get the session's name from an environment variable.
 */
export const kimiLauncher: Launcher = {
  beginsSession: (args) => isSession(args, OTHER_COMMANDS),
  sessionIn: kimiSessionIn,
  async prepare({ args, env, name }: LaunchOrder): Promise<Launch> {
    const isOneShot = hasOption(args, '-p', '--prompt');
    const isInstalled = hasHook(`${kimiHome({ ...env, HOME: userHome(env) })}/config.toml`, 'kimi');
    return {
      added: [],
      env: { ...env, PARLEY_AGENT: name },
      isHeld: !isOneShot,
      canBeWoken: !isOneShot,
      otherwise: isInstalled
        ? 'mail comes with your next prompt, and at the end of a turn'
        : 'mail waits until its model asks for it',
      notes: isInstalled ? [] : ['Kimi takes hooks and tools only from its settings; `parley install kimi` adds them'],
    };
  },
};
