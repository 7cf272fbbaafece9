import { mkdirSync } from 'node:fs';
import type { Env } from '../../core/env.ts';
import type { SessionControl } from '../../core/sessions/control.ts';
import { Refusal } from '../../core/refusal.ts';
import { userHome } from '../../platform/env.ts';
import { shownState } from '../../protocols/control/commands.ts';
import { newSessionName, splitName } from '../../protocols/control/config.ts';
import type { ControlFile } from '../../protocols/control/config.ts';

const SCREEN_LINES = 50;
const HELP = `Write in the topic of a session: what you write is typed there, and its answer comes here.
/new <name> [path] makes a session
/continue starts it again, with its conversation
/kill [name] ends and removes it
/list shows all sessions
/status shows what this one does
/screenshot shows its terminal
/away also shows what is typed at the keyboard, or not any more
/ping`;

export interface ChatCommandDeps {
  control: SessionControl;
  config: ControlFile;
  env: Env;
}

/** A command of the user, in the topic of a session or outside of one. */
interface ChatCommand {
  deps: ChatCommandDeps;
  session: string | null;
  words: string[];
  who: string;
}

/** Each gives what is said. spec: control#chat */
const COMMANDS: Record<string, (command: ChatCommand) => string | Promise<string>> = {
  ping: () => 'pong',
  help: () => HELP,
  start: () => HELP,

  async list({ deps }) {
    const found = await deps.control.sessions();
    const lines = found.map(({ name, folder, state }) => `${name}: ${shownState(state).status} (${folder})`);
    return lines.sort().join('\n') || 'no sessions; make one with /new <name>';
  },

  async status({ deps, session, words: [name = session] }) {
    if (name === null) return COMMANDS['list']?.({ deps, session, words: [], who: '' }) ?? '';
    const found = (await deps.control.sessions()).find((one) => one.name === name);
    if (!found) throw new Refusal('not_found', 'session not found');
    const { status, waiting_for: waiting } = shownState(found.state);
    const queue = await deps.control.queue(name);
    const what = waiting === undefined ? status : `waits for you: ${waiting}`;
    return `${name}: ${what}${queue.length > 0 ? `, ${queue.length} on the way` : ''}`;
  },

  async screenshot(command) {
    return command.deps.control.screen(meant(command), SCREEN_LINES);
  },

  async continue(command) {
    const session = meant(command);
    await command.deps.control.restart(session);
    return `🔄 [${command.who}] Session continued`;
  },

  async new({ deps: { config, env }, words: [name = '', ...rest] }) {
    const { host, base } = splitName(newSessionName(name));
    const settings = config.read();
    const root = host === 'local' ? settings.projects_dir : (settings.hosts[host]?.projects_dir ?? '');
    const path = rest.join(' ') || `${root || '~'}/${base}`;
    config.add(name, { path });
    if (host === 'local') mkdirSync(path.replace(/^~(?=\/|$)/, userHome(env)), { recursive: true });
    return `new session ${name} (${path}); write in its topic`;
  },

  async kill({ deps: { control, config }, session, words: [name = session] }) {
    if (name === null) throw new Refusal('invalid_request', 'which session? /kill <name>');
    if (!config.session(name)) throw new Refusal('not_found', 'session not found');
    await control.stop(name);
    config.remove(name);
    return `${name} was ended and removed; its history is kept`;
  },

  away({ deps: { config } }) {
    const away = !config.read().away;
    config.setAway(away);
    return away ? 'away: what is typed at the keyboard is shown here, too' : 'back: the keyboard is not shown any more';
  },

  c: shell,
  rc: shell,
};

/** The answer to a message that begins with a slash. */
export async function chatCommand(deps: ChatCommandDeps, text: string, session: string | null, who: string) {
  // In a group people may write `/list@name_of_the_bot`.
  const [word = '', ...words] = text.slice(1).trim().split(/\s+/);
  const name = word.split('@')[0] ?? '';
  const act = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!act) return `there is no command /${name.slice(0, 60)}; see /help`;
  return act({ deps, session, words: words.filter(Boolean), who });
}

function meant({ session, words }: ChatCommand): string {
  const name = words[0] ?? session;
  if (name === null) throw new Refusal('invalid_request', 'write it in the topic of a session, or name one');
  return name;
}

function shell({ deps: { config } }: ChatCommand): string {
  return config.read().allow_shell
    ? 'a shell by chat is not in this version'
    : 'a shell by chat is off (allow_shell in ~/.ccc.json)';
}
