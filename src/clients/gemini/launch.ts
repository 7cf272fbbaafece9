import { randomUUID } from 'node:crypto';
import { hasHook, hasOption, isSession } from '../launch.ts';
import type { Launch, Launcher, LaunchOrder } from '../launch.ts';
import { geminiSessionIn } from './held.ts';
import { geminiHome } from './record.ts';

/** Commands of Gemini CLI that start no session. */
const OTHER_COMMANDS = ['mcp', 'extensions', 'extension', 'skills', 'skill', 'hooks', 'hook', 'gemma'];
/** Options with which it starts no session in this terminal. */
const OTHER_OPTIONS = ['-l', '--list-extensions', '--list-sessions', '--delete-session', '--acp', '--experimental-acp'];

/**
 * Gemini CLI 0.61 reads hooks and MCP servers only from its settings files, so Parley adds only the id of the session. The process that
 * holds the terminal types the mail. After `parley install gemini`, the hook and the tools get the session's name from an environment
 * variable.
 */
export const geminiLauncher: Launcher = {
  beginsSession: (args) => isSession(args, OTHER_COMMANDS) && !hasOption(args, ...OTHER_OPTIONS),
  sessionIn: geminiSessionIn,
  async prepare({ args, env, name }: LaunchOrder): Promise<Launch> {
    const isOneShot = hasOption(args, '-p', '--prompt');
    const isInstalled = hasHook(`${geminiHome(env)}/settings.json`, 'gemini');
    const isOurs = !hasOption(args, '-r', '--resume', '--session-id', '--session-file');
    return {
      added: isOurs ? ['--session-id', randomUUID()] : [],
      env: { ...env, PARLEY_AGENT: name },
      isHeld: !isOneShot,
      canBeWoken: !isOneShot,
      otherwise: isInstalled
        ? 'mail comes with your next prompt, and while it works'
        : 'mail waits until its model asks for it',
      notes: isInstalled
        ? []
        : ['Gemini CLI takes hooks and tools only from its settings; `parley install gemini` adds them'],
    };
  },
};
