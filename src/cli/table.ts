import { run } from '../core/command.ts';
import type { Command, Row } from '../core/command.ts';
import type { Bch } from '../protocols/backchannel/workspace.ts';
import type { C2c } from '../protocols/c2c/workspace.ts';
import type { Context } from './context.ts';

/** A row that the help lists. */
interface ListedRow extends Row<Context> {
  group: 'Start' | 'Write' | 'Read' | 'Obligations' | 'Sessions' | 'History' | 'Other machines' | 'Maintenance';
  summary: string;
}

/** A file of commands, loaded when one of them is called. */
type Load<Name extends string, C> = () => Promise<{ commands: Record<Name, Command<C>> }>;

const mail = () => import('./commands/mail.ts');
const read = () => import('./commands/read.ts');
const obligations = () => import('./commands/obligations.ts');
const history = () => import('./commands/history.ts');
const trace = only('trace', () => import('./commands/trace.ts'));
const live = only('live', () => import('./commands/live.ts'));
const remote = () => import('./commands/remote.ts');
const relay = () => import('./commands/relay.ts');
const sessions = () => import('./commands/sessions.ts');
const ask = () => import('./commands/ask.ts');
const control = () => import('./commands/control.ts');
const screenshot = () => import('./commands/screenshot.ts');
const setup = () => import('./commands/setup.ts');
const demo = () => import('./commands/demo.ts');
const config = () => import('./commands/config.ts');
const service = () => import('./commands/service.ts');
const self = () => import('./commands/self.ts');
const doctor = () => import('./commands/doctor.ts');
const daemon = () => import('./commands/daemon.ts');
const servers = () => import('./commands/servers.ts');
const prune = () => import('./commands/prune.ts');
const hook = only('hook', () => import('./commands/hook.ts'));
const runClient = only('run', () => import('./commands/run.ts'));
const install = only('install', () => import('./commands/install.ts'));

/** Every command of `parley`, in the order of the help. */
export const PARLEY_COMMANDS: readonly ListedRow[] = [
  row('Start', 'init', 'make a mailbox, for an agent or a person', setup),
  row('Start', 'demo', 'watch two scripted agents exchange a message', demo),
  row('Start', 'run', 'start a client (Claude Code, Codex, …) that gets its mail by itself', runClient),
  row('Start', 'install', 'add Parley to your clients (Claude Code, Codex, …)', install),
  row('Start', 'whoami', 'show which agent I am, and where my mailbox is', sessions),
  row('Start', 'trust', 'trust a .parley.json that came with a repository', setup),
  row('Start', 'agents', 'list the agents and people on this machine', sessions),
  row('Start', 'role', 'give a role to an agent, or remove it', sessions),
  row('Start', 'channels', 'list the channels', sessions),
  row('Write', 'send', 'send a message to an agent, a role or a channel', mail),
  row('Write', 'reply', 'answer a message', mail),
  row('Write', 'react', 'answer with one word, which costs nobody a turn', mail),
  row('Write', 'raise', 'assign a message to an agent (people only)', mail),
  row('Write', 'withdraw', 'take back a message that nobody has taken yet', mail),
  row('Write', 'sub', 'subscribe to a channel', sessions),
  row('Write', 'unsub', 'leave a channel', sessions),
  row('Read', 'inbox', 'list my waiting mail; takes nothing', read),
  row('Read', 'read', 'show one message; takes it if it waits for me', read),
  row('Read', 'take', 'take one message', read),
  row('Read', 'ack', 'settle a message without showing it', read),
  row('Read', 'release', 'put back a message that I hold', read),
  row('Read', 'drain', 'take and print all my waiting mail', read),
  row('Read', 'watch', 'show mail as it comes, or run a command on each message', read),
  row('Read', 'hook', "show waiting mail to a client's model (the client runs this)", hook),
  row('Read', 'mcp', 'serve my mail as MCP tools (the client runs this)', servers),
  row('Obligations', 'owe', 'list what I must answer, or what others owe me', obligations),
  row('Obligations', 'claim', 'become the one who answers a message to several agents', obligations),
  row('Obligations', 'defer', 'postpone an answer that I owe, with a reason', obligations),
  row('Obligations', 'resolve', 'end what is owed for a message or a whole thread', obligations),
  row('Obligations', 'own', 'get the mail of a channel or a thread first', obligations),
  row('Obligations', 'quiet', 'mute my mail, for a while or at certain hours', obligations),
  row('Obligations', 'approve', 'approve a request (people only, at a terminal)', obligations),
  row('Obligations', 'deny', 'deny a request (people only, at a terminal)', obligations),
  row('Sessions', 'session', 'make, remove and list sessions that take prompts', control),
  row('Sessions', 'sessions', 'show what each session does now', control),
  row('Sessions', 'ask', 'give a prompt to a session and wait for its answer', ask),
  row('Sessions', 'prompt', 'give a prompt to a session and do not wait', control),
  row('Sessions', 'queue', 'list prompts that were not answered yet, or cancel one', control),
  row('Sessions', 'screenshot', "show the last lines of a session's terminal, or draw them", screenshot),
  row('Sessions', 'questions', 'show what a session asks its user', control),
  row('Sessions', 'answer', 'answer a question of a session', control),
  row('History', 'events', 'list the messages that I may see, with their state', history),
  row('History', 'why', 'explain who did what with a message, and why', history),
  row('History', 'trace', 'show the proven steps of a message', trace),
  row('History', 'live', 'watch all messages and their proof as they happen', live),
  row('History', 'history', 'list messages, newest first; or the prompts and answers of a session', history),
  row('History', 'search', 'find messages by their words', history),
  row('Other machines', 'join', 'join a room of a relay with an invite', remote),
  row('Other machines', 'invite', 'print an invite to a room of a relay', remote),
  row('Other machines', 'room', 'make a room on a relay', remote),
  row('Other machines', 'outbox', 'list or send what has not reached a relay yet', remote),
  row('Other machines', 'relay', 'serve rooms to agents on other machines', relay),
  row('Maintenance', 'host', 'serve my mail to programs that run models, and to chats', servers),
  row('Maintenance', 'up', 'start the daemon: a relay, a host, the outbox, wake loops', daemon),
  row('Maintenance', 'down', 'stop the daemon', daemon),
  row('Maintenance', 'status', 'show what runs, and whether it answers', daemon),
  row('Maintenance', 'service', 'keep the control server running: install, status, logs', service),
  row('Maintenance', 'doctor', 'check the setup, and say what to fix', doctor),
  row('Maintenance', 'config', 'show and change settings', config),
  row('Maintenance', 'prune', 'delete old bodies and traces', prune),
  row('Maintenance', 'forget', 'delete an agent and its mail', sessions),
  row('Maintenance', 'completion', 'print a completion script for the shell', setup),
  row('Maintenance', 'self', 'install or remove this program', self),
  row('Maintenance', 'version', 'show the version', setup),
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
  ...rows(() => import('../protocols/c2c/managed.ts'), 'start', 'stop', 'restart'),
  ...rows(() => import('../protocols/c2c/status-commands.ts'), 'instances', 'status', 'get-tmux-location'),
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
const CCC_COMMANDS: readonly Row<Context>[] = [
  ...rows(service, 'setup'),
  ...rows(() => import('./commands/ccc.ts'), 'listen', 'new', 'kill', 'list', 'version', 'drive', 'dialog', 'hosts'),
  ...rows(service, 'install-service', 'uninstall-service'),
];

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
