import { mkdirSync } from 'node:fs';
import type { Env } from '../../core/env.ts';
import type { Log } from '../../core/service.ts';
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
/** The beginning of a command: `/list`, or `/list@name_of_the_bot` in a group. A path does not match. */
const COMMAND = /^\/([A-Za-z]\w*)(?:@\w+)?(?=\s|$)/;

export interface ChatCommandDeps {
  control: SessionControl;
  config: ControlFile;
  env: Env;
  /** A screen with styles as a PNG. */
  draw: (styled: string) => Promise<Uint8Array>;
  log: Log;
}

/** The answer to a command. `text` is sent if the chat does not accept the picture. */
export type ChatAnswer = string | { png: Uint8Array; text: string };

/** A command of the user, in the topic of a session or outside of one. */
export interface ChatCommand {
  name: string;
  words: string[];
  session: string | null;
  who: string;
}

interface Act {
  run(deps: ChatCommandDeps, command: ChatCommand, begun: Begun): ChatAnswer | Promise<ChatAnswer>;
  /** For a command that changes something: the state before it, which is stored so that a run after a crash does it only once. */
  before?(deps: ChatCommandDeps, command: ChatCommand): string | Promise<string>;
}

interface Begun {
  before: string;
  /** An earlier run may have done it. */
  isAgain: boolean;
}

/** spec: control#chat */
const COMMANDS: Record<string, Act> = {
  ping: { run: () => 'pong' },
  help: { run: () => HELP },
  start: { run: () => HELP },
  list: { run: ({ control }) => listed(control) },

  status: {
    async run({ control }, { session, words: [name = session] }) {
      if (name === null) return listed(control);
      const found = (await control.sessions()).find((one) => one.name === name);
      if (!found) throw new Refusal('not_found', 'session not found');
      const { status, waiting_for: waiting } = shownState(found.state);
      const queue = await control.queue(name);
      const what = waiting === undefined ? status : `waits for you: ${waiting}`;
      return `${name}: ${what}${queue.length > 0 ? `, ${queue.length} on the way` : ''}`;
    },
  },

  screenshot: {
    async run({ control, draw, log }, command) {
      const session = meant(command);
      const text = await control.screen(session, SCREEN_LINES);
      try {
        return { text, png: await draw(await control.screen(session, SCREEN_LINES, { styles: true })) };
      } catch (error) {
        log('picture_trouble', { because: error instanceof Error ? error.message : String(error) });
        return text;
      }
    },
  },

  continue: {
    before: async ({ control }, command) => pidOf(control, meant(command)),
    async run({ control }, command, { before, isAgain }) {
      const session = meant(command);
      const pid = isAgain ? await pidOf(control, session) : '';
      // If another client runs than before, it was restarted already.
      if (pid === '' || pid === before) await control.restart(session);
      return `🔄 [${command.who}] Session continued`;
    },
  },

  new: {
    before: () => '',
    run({ config, env }, { words: [name = '', ...rest] }, { isAgain }) {
      const { host, base } = splitName(newSessionName(name));
      const { projects_dir: here, hosts } = config.read();
      const root = (host === 'local' ? here : hosts[host]?.projects_dir) || '~';
      const folder = rest.join(' ') || base;
      const path = /^[/~]/.test(folder) ? folder : `${root}/${folder}`;
      const there = config.session(name);
      if (!there && host === 'local') mkdirSync(path.replace(/^~(?=\/|$)/, userHome(env)), { recursive: true });
      if (!there || !isAgain || there.path !== path) config.add(name, { path });
      return `new session ${name} (${path}); write in its topic`;
    },
  },

  kill: {
    before: () => '',
    async run({ control, config }, { session, words: [name = session] }, { isAgain }) {
      if (name === null) throw new Refusal('invalid_request', 'which session? /kill <name>');
      const isThere = config.session(name) !== null;
      if (!isThere && !isAgain) throw new Refusal('not_found', 'session not found');
      if (isThere) {
        await control.stop(name);
        config.remove(name);
      }
      return `${name} was ended and removed; its history is kept`;
    },
  },

  away: {
    before: ({ config }) => (config.read().away ? 'away' : 'back'),
    run({ config }, _command, { before }) {
      const isAway = before !== 'away';
      config.setAway(isAway);
      return isAway
        ? 'away: what is typed at the keyboard is shown here too'
        : 'back: the keyboard is not shown any more';
    },
  },

  c: { run: shell },
  rc: { run: shell },
};

/** The command in a message of the user; null if it is a text for the session. */
export function commandIn(text: string, session: string | null, who: string): ChatCommand | null {
  const [all, name] = COMMAND.exec(text) ?? [];
  if (all === undefined || name === undefined) return null;
  const words = text.slice(all.length).split(/\s+/).filter(Boolean);
  return { name: name.toLowerCase(), words, session, who };
}

/** The state before a command that changes something; null for any other command. */
export async function beforeCommand(deps: ChatCommandDeps, command: ChatCommand): Promise<string | null> {
  return (await actOf(command)?.before?.(deps, command)) ?? null;
}

/** Runs a command and returns its answer. Throws a Refusal. */
export async function runCommand(deps: ChatCommandDeps, command: ChatCommand, begun: Begun): Promise<ChatAnswer> {
  const act = actOf(command);
  if (!act) return `there is no command /${command.name.slice(0, 60)}; see /help`;
  return act.run(deps, command, begun);
}

function actOf({ name }: ChatCommand): Act | undefined {
  return Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
}

function meant({ session, words }: ChatCommand): string {
  const name = words[0] ?? session;
  if (name === null) throw new Refusal('invalid_request', 'write it in the topic of a session, or name one');
  return name;
}

async function listed(control: SessionControl): Promise<string> {
  const found = await control.sessions();
  const lines = found.map(({ name, folder, state }) => `${name}: ${shownState(state).status} (${folder})`);
  return lines.sort().join('\n') || 'no sessions; make one with /new <name>';
}

/** The client of a session; empty if none runs. */
async function pidOf(control: SessionControl, session: string): Promise<string> {
  const found = (await control.sessions()).find(({ name }) => name === session);
  return String(found?.state.pid ?? '');
}

function shell({ config }: ChatCommandDeps): string {
  return config.read().allow_shell
    ? 'a shell by chat is not in this version'
    : 'a shell by chat is off (allow_shell in ~/.ccc.json)';
}
