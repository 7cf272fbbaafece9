import { run } from '../core/command.ts';
import type { Command, Row } from '../core/command.ts';
import type { Bch } from '../protocols/backchannel/workspace.ts';
import type { C2c } from '../protocols/c2c/workspace.ts';
import type { Context } from './context.ts';

/** A row that the help lists. */
interface ListedRow extends Row<Context> {
  group: 'Start' | 'Write' | 'Read' | 'Owe' | 'Sessions' | 'Look back' | 'Other machines' | 'Keep house';
  summary: string;
}

/** A file of commands, loaded when one of them is called. */
type Load<Name extends string, C> = () => Promise<{ commands: Record<Name, Command<C>> }>;

const mail = () => import('./commands/mail.ts');
const read = () => import('./commands/read.ts');
const obligations = () => import('./commands/obligations.ts');
const history = () => import('./commands/history.ts');
const remote = () => import('./commands/remote.ts');
const relay = () => import('./commands/relay.ts');
const sessions = () => import('./commands/sessions.ts');
const control = () => import('./commands/control.ts');
const setup = () => import('./commands/setup.ts');
const demo = () => import('./commands/demo.ts');
const config = () => import('./commands/config.ts');
const self = () => import('./commands/self.ts');
const doctor = () => import('./commands/doctor.ts');
const daemon = () => import('./commands/daemon.ts');
const servers = () => import('./commands/servers.ts');
const prune = () => import('./commands/prune.ts');
const hook = only('hook', () => import('./commands/hook.ts'));
const install = only('install', () => import('./commands/install.ts'));

/** Every command of `parley`, in the order of the help. */
export const PARLEY_COMMANDS: readonly ListedRow[] = [
  row('Start', 'init', 'make a mailbox, for an agent or a person', setup),
  row('Start', 'demo', 'watch two scripted agents exchange a message', demo),
  row('Start', 'install', 'add Parley to the clients that are here', install),
  row('Start', 'whoami', 'who I am, and where my mail waits', sessions),
  row('Start', 'trust', 'accept a file .parley.json that came with a repository', setup),
  row('Start', 'agents', 'who is here', sessions),
  row('Start', 'role', 'give a role to an agent, or take it away', sessions),
  row('Start', 'channels', 'which channels exist', sessions),
  row('Write', 'send', 'leave a message for an agent, a role or a channel', mail),
  row('Write', 'reply', 'answer a message, and settle it', mail),
  row('Write', 'react', 'answer with one word that costs nobody a turn', mail),
  row('Write', 'raise', 'assign a message to an agent (people only)', mail),
  row('Write', 'withdraw', 'take back the copies that nobody has taken', mail),
  row('Write', 'sub', 'subscribe to a channel', sessions),
  row('Write', 'unsub', 'leave a channel', sessions),
  row('Read', 'inbox', 'what waits for me; takes nothing', read),
  row('Read', 'read', 'show one whole message, and take it if it waits for me', read),
  row('Read', 'take', 'take one message', read),
  row('Read', 'ack', 'settle a message that waits or that I hold', read),
  row('Read', 'release', 'give back a message that I hold', read),
  row('Read', 'drain', 'take everything that waits for me here', read),
  row('Read', 'watch', 'wait for mail and show it, or run a command on it', read),
  row('Read', 'hook', "put waiting mail before a client's model (called by the client)", hook),
  row('Read', 'mcp', 'offer my mail as tools over MCP (called by a client)', servers),
  row('Owe', 'owe', 'what I must answer, and what others owe me', obligations),
  row('Owe', 'claim', 'answer for what several could answer', obligations),
  row('Owe', 'defer', 'put off what I owe, and say why', obligations),
  row('Owe', 'resolve', 'say that a message or an exchange is dealt with', obligations),
  row('Owe', 'own', 'be the one who is asked about a channel or an exchange', obligations),
  row('Owe', 'quiet', 'be left alone, for a while or at certain hours', obligations),
  row('Owe', 'approve', 'say yes to a request, as a person at a terminal', obligations),
  row('Owe', 'deny', 'say no to a request, as a person at a terminal', obligations),
  row('Sessions', 'session', 'make and remove sessions that can be prompted', control),
  row('Sessions', 'sessions', 'which there are, and what each does now', control),
  row('Sessions', 'ask', 'put a prompt into a session and wait for its answer', control),
  row('Sessions', 'prompt', 'put a prompt into a session and do not wait', control),
  row('Sessions', 'queue', 'prompts on their way; take one back', control),
  row('Sessions', 'screenshot', "the last lines of a session's terminal", control),
  row('Sessions', 'questions', 'what a session asks its user', control),
  row('Sessions', 'answer', 'answer a question of a session', control),
  row('Look back', 'events', 'everything I may see, and what became of it', history),
  row('Look back', 'why', 'who did what with a message, when and why', history),
  row('Look back', 'trace', 'what became of a message, with the evidence', history),
  row('Look back', 'history', 'what was said, newest first; with a session, its prompts and answers', history),
  row('Look back', 'search', 'find messages by their words', history),
  row('Other machines', 'join', 'accept an invite to a room of a relay', remote),
  row('Other machines', 'invite', 'write an invite to a room of a relay', remote),
  row('Other machines', 'room', 'make a room on a relay', remote),
  row('Other machines', 'outbox', 'what I sent to a relay and may not have arrived', remote),
  row('Other machines', 'relay', 'serve rooms to agents on other machines', relay),
  row('Keep house', 'host', 'serve my mail to programs that run models, and to chats', servers),
  row('Keep house', 'up', 'run the daemon: a relay, a host, wake loops', daemon),
  row('Keep house', 'down', 'end the daemon', daemon),
  row('Keep house', 'status', 'what runs, and whether it answers', daemon),
  row('Keep house', 'doctor', 'look for trouble and say what to do', doctor),
  row('Keep house', 'config', 'every setting, and where its value comes from', config),
  row('Keep house', 'prune', 'forget old bodies and old traces', prune),
  row('Keep house', 'forget', 'remove an agent with everything it had', sessions),
  row('Keep house', 'completion', 'a completion script for the shell', setup),
  row('Keep house', 'self', 'install or remove this program', self),
  row('Keep house', 'version', 'the version of this program', setup),
];

/** Every command of `bch`. Its help is one text, beside its dialect. */
const BCH_COMMANDS: readonly Row<Bch>[] = [
  ...rows(
    () => import('../protocols/backchannel/commands.ts'),
    'send',
    'inbox',
    'drain',
    'read',
    'watch',
    'sub',
    'unsub',
    'agents',
    'channels',
    'whoami',
    'mcp',
  ),
  ...rows(() => import('../protocols/backchannel/remote-commands.ts'), 'init', 'room', 'invite', 'join'),
  ...rows(() => import('../protocols/backchannel/relay.ts'), 'relay'),
  ...rows(
    only('setup', () => import('../protocols/backchannel/setup.ts')),
    'setup',
  ),
];

/** Every command of `c2c`. Its help is one text, too. */
export const C2C_COMMANDS: readonly Row<C2c>[] = [
  ...rows(
    () => import('../protocols/c2c/commands.ts'),
    'send',
    'send-all',
    'poll-inbox',
    'peek-inbox',
    'history',
    'dead-letter',
    'version',
  ),
  ...rows(
    () => import('../protocols/c2c/session-commands.ts'),
    'register',
    'whoami',
    'list',
    'set-dnd',
    'dnd',
    'clear-compact',
    'set-compact',
  ),
  ...rows(() => import('../protocols/c2c/room-commands.ts'), 'rooms', 'room', 'my-rooms'),
  ...rows(() => import('../protocols/c2c/supervisor-commands.ts'), 'open-pending-reply', 'check-pending-reply', 'repo'),
  ...rows(() => import('../protocols/c2c/monitor.ts'), 'monitor'),
  ...rows(() => import('../protocols/c2c/server.ts'), 'mcp', 'serve'),
  ...rows(() => import('../protocols/c2c/opencode.ts'), 'oc-plugin', 'statefile'),
  ...rows(() => import('../protocols/c2c/wire-daemon.ts'), 'wire-daemon'),
  ...rows(() => import('../protocols/c2c/deliver-inbox.ts'), 'deliver-inbox'),
  ...rows(() => import('../protocols/c2c/managed.ts'), 'start', 'stop', 'restart', 'instances'),
  ...rows(
    only('hook', () => import('../protocols/c2c/hook.ts')),
    'hook',
  ),
  ...rows(
    only('install', () => import('../protocols/c2c/install.ts')),
    'install',
  ),
  ...rows(() => import('./doctor/c2c.ts'), 'doctor'),
];

/** Every command of `ccc`, in the order of its help. */
const CCC_COMMANDS: readonly Row<Context>[] = rows(
  () => import('./commands/ccc.ts'),
  'listen',
  'new',
  'kill',
  'list',
  'version',
  'setup',
  'install-service',
  'uninstall-service',
  'hosts',
);

/** What the OpenCode plugin asks for is two words, and nothing that people could mean. */
const PLUGIN_PARTS: readonly Row<C2c>[] = rows(
  () => import('../protocols/c2c/opencode.ts'),
  'oc-plugin drain-inbox-to-spool',
  'oc-plugin stream-write-statefile',
);

/** `parley` alone. */
const OVERVIEW: Row<Context> = { name: '', load: async () => (await read()).overview };

/** `ccc` alone. */
const ATTACH: Row<Context> = { name: '', load: async () => (await import('./commands/ccc.ts')).alone };

/** Runs a command line under one of the program's names. */
export async function speak(name: 'parley' | 'bch' | 'c2c' | 'ccc', argv: readonly string[]): Promise<void> {
  switch (name) {
    case 'parley': {
      const { parley } = await import('./parley.ts');
      return run(parley(PARLEY_COMMANDS), [OVERVIEW, ...PARLEY_COMMANDS], argv);
    }
    case 'bch': {
      const { backchannel } = await import('../protocols/backchannel/dialect.ts');
      return run(backchannel(), BCH_COMMANDS, argv);
    }
    case 'c2c': {
      const { c2c } = await import('../protocols/c2c/dialect.ts');
      const names = [...C2C_COMMANDS.map((row) => row.name), 'help'];
      return run(c2c(names), [...C2C_COMMANDS, ...PLUGIN_PARTS], argv);
    }
    case 'ccc': {
      const { ccc } = await import('./ccc.ts');
      const names = [...CCC_COMMANDS.map((row) => row.name), 'help'];
      return run(ccc(names), [ATTACH, ...CCC_COMMANDS], argv);
    }
  }
}

function row<Name extends string>(
  group: ListedRow['group'],
  name: Name,
  summary: string,
  load: Load<Name, Context>,
): ListedRow {
  return { name, group, summary, load: async () => (await load()).commands[name] };
}

/** Several commands of one file. */
function rows<C, Name extends string>(load: Load<Name, C>, ...names: Name[]): Row<C>[] {
  return names.map((name) => ({ name, load: async () => (await load()).commands[name] }));
}

/** A file with one command. */
function only<Name extends string, C>(name: Name, load: () => Promise<{ default: Command<C> }>): Load<Name, C> {
  return async () => ({ commands: { [name]: (await load()).default } as Record<Name, Command<C>> });
}
