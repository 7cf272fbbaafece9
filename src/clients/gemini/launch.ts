import { userHome } from '../../platform/env.ts';
import { hasHook, hasOption, isSession } from '../launch.ts';
import type { Launch, Launcher, LaunchOrder } from '../launch.ts';

/** Commands of Gemini CLI that begin no session. */
const OTHER_COMMANDS = ['mcp', 'extensions', 'extension', 'skills', 'skill', 'hooks', 'hook'];

/**
 * Gemini CLI, from its documentation: it was not run in our tests. It takes hooks and servers from its settings files. Its terminal is held
 * as Kimi's is; its screen is not known, so nothing is typed.
 */
export const geminiLauncher: Launcher = {
  beginsSession: (args) => isSession(args, OTHER_COMMANDS),
  sessionIn: () => undefined,
  async prepare({ args, env, name }: LaunchOrder): Promise<Launch> {
    const isInstalled = hasHook(`${userHome(env)}/.gemini/settings.json`, 'gemini');
    return {
      added: [],
      env: { ...env, PARLEY_AGENT: name },
      isHeld: !hasOption(args, '-p', '--prompt'),
      canBeWoken: false,
      otherwise: isInstalled
        ? 'mail comes with your next prompt, and while it works'
        : 'mail waits until its model asks for it',
      notes: isInstalled
        ? []
        : ['Gemini CLI takes hooks and tools only from its settings; `parley install gemini` adds them'],
    };
  },
};
