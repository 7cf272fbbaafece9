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
 * Kimi 2.1 takes hooks and servers from its settings files and from nowhere else, so nothing is added for one session: mail is typed by
 * the process that holds its terminal. Where `parley install kimi` was run, its hook and tools have the name of the session by a variable.
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
