import { randomUUID } from 'node:crypto';
import { hasHook, hasOption, isSession } from '../launch.ts';
import type { Launch, Launcher, LaunchOrder } from '../launch.ts';
import { geminiSessionIn } from './held.ts';
import { geminiHome } from './record.ts';

/** Commands of Gemini CLI that begin no session. */
const OTHER_COMMANDS = ['mcp', 'extensions', 'extension', 'skills', 'skill', 'hooks', 'hook', 'gemma'];
/** Options with which it begins no session in this terminal. */
const OTHER_OPTIONS = ['-l', '--list-extensions', '--list-sessions', '--delete-session', '--acp', '--experimental-acp'];

/**
 * Gemini CLI 0.61 takes hooks and servers from its settings files and from nowhere else, so only the id of the session is added: mail is
 * typed by the process that holds its terminal. Where `parley install gemini` was run, its hook and tools have the name of the session by a
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
