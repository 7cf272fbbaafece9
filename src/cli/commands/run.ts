import { readFileSync, realpathSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { CLIENT_NAMES } from '../../clients/client-names.ts';
import type { ClientName } from '../../clients/client-names.ts';
import { clientNamed } from '../../clients/clients.ts';
import { claudeLauncher } from '../../clients/claude/launch.ts';
import { codexLauncher } from '../../clients/codex/launch.ts';
import { holdThread } from '../../clients/codex/thread.ts';
import type { WantedThread } from '../../clients/codex/thread.ts';
import { SETTINGS_CLIENTS } from '../../clients/installable.ts';
import type { Launch, Launcher } from '../../clients/launch.ts';
import { geminiLauncher } from '../../clients/gemini/launch.ts';
import { kimiLauncher } from '../../clients/kimi/launch.ts';
import { opencodeLauncher } from '../../clients/opencode/launch.ts';
import { command } from '../../core/command.ts';
import type { Home, Who } from '../../core/mail/workspace.ts';
import type { AgentName } from '../../core/names.ts';
import { nearest } from '../../core/nearest.ts';
import { Refusal } from '../../core/refusal.ts';
import { HookSessionFolder, mailboxOf } from '../../delivery/hook-session.ts';
import { hasLiveProcess, SessionNames } from '../../delivery/session-names.ts';
import type { NamedSession } from '../../delivery/session-names.ts';
import { parleyHome } from '../../platform/env.ts';
import { execProgram } from '../../platform/exec.ts';
import { isCompiled, ownCommand } from '../../platform/program.ts';
import { onPath } from '../../platform/search-path.ts';
import { agentName, Context } from '../context.ts';
import { canHold, holdClient } from '../hold-client.ts';
import { contextOf, hookLine, writeScript } from '../hook-setup.ts';
import { letsMessagesIn } from '../install/consent.ts';
import { makeMailbox, takenNames } from '../make-mailbox.ts';
import { relayMailboxes } from '../relay-mailboxes.ts';
import { startFollower } from '../start-follower.ts';

const LAUNCHERS: Record<ClientName, Launcher> = {
  claude: claudeLauncher,
  codex: codexLauncher,
  opencode: opencodeLauncher,
  kimi: kimiLauncher,
  gemini: geminiLauncher,
};

const BUN_CACHE = 'BUN_RUNTIME_TRANSPILER_CACHE_PATH';

export default command({
  usage: `run <${CLIENT_NAMES.join('|')}> [--as name] [--] [arguments of the client]`,
  about:
    'Starts a client in this terminal as a session with a name of its own, such as @claude.api in the folder api. It has the tools of ' +
    'Parley, gets mail for that name, and signs with it. The next session in the same folder has the same name; a second one at the ' +
    'same time gets a number.\n' +
    'The client takes the place of this command: keys, signals and the exit code are its own. Kimi and Gemini CLI run in a terminal ' +
    'that this command holds, so that mail can be typed there; every byte goes through. No settings file is changed, and ' +
    'nothing is left but the mailbox and the name. What follows the name of the client goes to the client as it is.',
  options: {
    as: { type: 'string', value: 'name', help: 'give the session this name' },
    'hold-thread': {
      type: 'string',
      value: 'json',
      help: 'keeps a conversation of Codex until its window has it',
      isInternal: true,
    },
  },
  words: [1, Infinity],
  passes: true,
  examples: [
    'parley run claude',
    'parley run codex --as reviewer',
    'parley run claude --resume',
    'parley run claude -- -p "which tests fail?"',
  ],
  async run(context: Context, values, [word = '', ...args]) {
    if (values['hold-thread'] !== undefined)
      return holdThread(JSON.parse(values['hold-thread']) as WantedThread, (line) => context.say(line));
    const client = clientCalled(word);
    const launcher = LAUNCHERS[client];
    const program = programOf(client, context);
    if (!launcher.beginsSession(args)) execProgram(program, [client, ...exactWords(args)], context.env);
    const folder = folderOf(launcher.folderIn?.(args), context.cwd);
    const before = nameBefore(context, client, launcher.sessionIn(args));
    const who = await nameFor(context, client, folder, { as: values.as, before });
    const holds = launcher.holdsMessages?.(args, { env: context.env, folder }) ?? false;
    const inbound = letsMessagesIn(context, client, holds);
    const launch = await prepared(context, { client, launcher, program, args, folder, who, inbound });
    if (launch.session !== undefined) bind(context, who, folder, launch.session);
    context.note(`parley: you are @${who.name}; ${await howReached(context, client, launch)}`);
    for (const note of launch.notes) context.note(`parley: ${note}`);
    if (!launch.isHeld || !canHold()) execProgram(program, [client, ...launch.added, ...exactWords(args)], launch.env);
    const { name } = who;
    const words = [...launch.added, ...args];
    await holdClient({ client, program, args: words, name, cwd: context.cwd, folder, env: launch.env });
  },
});

function clientCalled(word: string): ClientName {
  const found = CLIENT_NAMES.find((name) => name === word);
  if (found) return found;
  const shown = word.replace(/\p{Cc}/gu, '?').slice(0, 40);
  const [near] = nearest(word, CLIENT_NAMES);
  throw new Refusal(
    'invalid_request',
    `no client is called "${shown}"; ${near ? `did you mean ${near}?` : `use one of ${CLIENT_NAMES.join(', ')}`}`,
  );
}

function programOf(client: ClientName, { env }: Context): string {
  const program = onPath(client, env);
  if (program !== null) return program;
  throw new Refusal(
    'not_found',
    `${titleOf(client)} is not installed: no program called ${client} is in your PATH. Install it, and try again`,
  );
}

function titleOf(client: ClientName): string {
  return SETTINGS_CLIENTS.find(({ name }) => name === client)?.title ?? client;
}

/** As the client sees it: a path without links. */
function folderOf(named: string | undefined, cwd: string): string {
  const folder = resolve(cwd, named ?? '.');
  return statSync(folder, { throwIfNoEntry: false })?.isDirectory() ? realpathSync(folder) : realpathSync(cwd);
}

/** The last words of this process as bytes: as texts, those that are no UTF-8 have changed. */
function exactWords(args: readonly string[]): readonly (string | Buffer)[] {
  try {
    const bytes = readFileSync('/proc/self/cmdline');
    const words: Buffer[] = [];
    for (let from = 0, end = bytes.indexOf(0); end >= 0; from = end + 1, end = bytes.indexOf(0, from))
      words.push(bytes.subarray(from, end));
    return args.length === 0 ? [] : words.slice(-args.length);
  } catch {
    // Only Linux has such a file.
    return args;
  }
}

/** The name that a session had which is continued now. Mail for it waits for this session. */
function nameBefore({ env }: Context, client: ClientName, session: string | undefined): AgentName | undefined {
  const had = (one: NamedSession): boolean =>
    one.client === client && session !== undefined && [...one.earlier, one.session].includes(session);
  return new SessionNames(parleyHome(env)).all().find((one) => had(one) && !hasLiveProcess(one))?.name;
}

/** Takes a name for the session, and makes its mailbox if there is none. */
async function nameFor(
  context: Context,
  client: ClientName,
  folder: string,
  { as, before }: { as: string | undefined; before: AgentName | undefined },
): Promise<Who> {
  const home = context.ownHome;
  const wanted = as === undefined ? undefined : agentName(as);
  const known = wanted ?? before;
  if (known !== undefined) await refuseUnfit(context, home, known);
  const taken = await takenNames(context);
  const names = new SessionNames(parleyHome(context.env));
  const { name } = names.take({ client, folder, wanted, before, pid: process.pid }, (one) => taken.has(one));
  if (!(await home.directory.get(name))) await makeMailbox(home, name);
  return { name, home };
}

/** A session cannot be a person, and one name has one mailbox. */
async function refuseUnfit(context: Context, home: Home, name: AgentName): Promise<void> {
  if ((await home.directory.get(name))?.parley?.kind === 'human')
    throw new Refusal('name_taken', `@${name} is the mailbox of a person; choose another name for the session`);
  const relay = relayMailboxes(parleyHome(context.env)).find(({ agent }) => agent === name);
  if (relay) throw new Refusal('name_taken', `@${name} is at ${relay.url}; choose another name for the session`);
}

async function prepared(
  context: Context,
  order: {
    client: ClientName;
    launcher: Launcher;
    program: string;
    args: readonly string[];
    folder: string;
    who: Who;
    inbound: boolean;
  },
): Promise<Launch> {
  const { client, launcher, who, ...rest } = order;
  writeScript(context.env);
  const [own = '', ...words] = ownCommand();
  const home = context.env['PARLEY_HOME'];
  // A client starts the server without our environment. Bun would keep compiled sources in the user's home then.
  const cache = isCompiled() ? undefined : context.env[BUN_CACHE];
  return launcher.prepare({
    ...rest,
    name: who.name,
    env: context.env,
    server: {
      command: own,
      args: [...words, 'mcp', '--client', client, '--as', who.name],
      env: { ...(home && { PARLEY_HOME: resolve(home) }), ...(cache !== undefined && { [BUN_CACHE]: cache }) },
    },
    hookLine: hookLine(context.env, client),
  });
}

/**
 * The client's own id of the session is known: the follower, an installed hook and a shell of the client find the name by it. The client
 * may ask its user first whether it may work here; until its window shows the session, no mail may begin a turn.
 */
function bind(context: Context, who: Who, folder: string, session: string): void {
  const home = parleyHome(context.env);
  new SessionNames(home).bind(who.name, session, { isOpening: true });
  const match = contextOf(new Context(context.env, folder, {}));
  HookSessionFolder.open(home, session)?.bind(
    { v: 1, by: 'init', agent: who.name, match, cwd: folder },
    mailboxOf(who),
  );
}

async function howReached({ env }: Context, client: ClientName, launch: Launch): Promise<string> {
  const isReachable = launch.canBeWoken && (!launch.isHeld || canHold());
  if (!isReachable || !clientNamed(client)?.live) return launch.otherwise;
  const follower = await startFollower(env);
  if (follower === 'running') return 'mail reaches this session by itself';
  return follower === 'forbidden' ? launch.otherwise : `${launch.otherwise} (nobody can wake it: ${follower.trouble})`;
}
