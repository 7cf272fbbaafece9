import type { Command } from './command.ts';

/** One row of the table of commands. The file behind it is read only when the command is called. */
export interface Row {
  name: string;
  group: 'Start' | 'Write' | 'Read' | 'Owe' | 'Look back' | 'Other machines' | 'Keep house';
  summary: string;
  load: () => Promise<{ default: Command }>;
}

/** Every command, in the order of the help. */
export const COMMANDS: readonly Row[] = [
  row('Start', 'init', 'make a mailbox, for an agent or a person', () => import('./commands/init.ts')),
  row('Start', 'demo', 'watch two scripted agents exchange a message', () => import('./commands/demo.ts')),
  row('Start', 'install', 'add Parley to the clients that are here', () => import('./commands/install.ts')),
  row('Start', 'whoami', 'who I am, and where my mail waits', () => import('./commands/whoami.ts')),
  row('Start', 'agents', 'who is here', () => import('./commands/agents.ts')),
  row('Start', 'role', 'give a role to an agent, or take it away', () => import('./commands/role.ts')),
  row('Start', 'channels', 'which channels exist', () => import('./commands/channels.ts')),
  row('Write', 'send', 'leave a message for an agent, a role or a channel', () => import('./commands/send.ts')),
  row('Write', 'reply', 'answer a message, and settle it', () => import('./commands/reply.ts')),
  row('Write', 'react', 'answer with one word that costs nobody a turn', () => import('./commands/react.ts')),
  row('Write', 'raise', 'hand to an agent what was said to nobody, as a person', () => import('./commands/raise.ts')),
  row('Write', 'withdraw', 'take back the copies that nobody has taken', () => import('./commands/withdraw.ts')),
  row('Write', 'sub', 'subscribe to a channel', () => import('./commands/sub.ts')),
  row('Write', 'unsub', 'leave a channel', () => import('./commands/unsub.ts')),
  row('Read', 'inbox', 'what waits for me; takes nothing', () => import('./commands/inbox.ts')),
  row('Read', 'read', 'show one whole message, and take it if it waits for me', () => import('./commands/read.ts')),
  row('Read', 'take', 'take one message', () => import('./commands/take.ts')),
  row('Read', 'ack', 'settle a message that waits or that I hold', () => import('./commands/ack.ts')),
  row('Read', 'release', 'give back a message that I hold', () => import('./commands/release.ts')),
  row('Read', 'drain', 'take everything that waits for me here', () => import('./commands/drain.ts')),
  row('Read', 'watch', 'wait for mail and show it, or run a command on it', () => import('./commands/watch.ts')),
  row(
    'Read',
    'hook',
    "put waiting mail before a client's model (called by the client)",
    () => import('./commands/hook.ts'),
  ),
  row('Read', 'mcp', 'offer my mail as tools over MCP (called by a client)', () => import('./commands/mcp.ts')),
  row('Owe', 'owe', 'what I must answer, and what others owe me', () => import('./commands/owe.ts')),
  row('Owe', 'claim', 'answer for what several could answer', () => import('./commands/claim.ts')),
  row('Owe', 'defer', 'put off what I owe, and say why', () => import('./commands/defer.ts')),
  row('Owe', 'resolve', 'say that a message or an exchange is dealt with', () => import('./commands/resolve.ts')),
  row('Owe', 'own', 'be the one who is asked about a channel or an exchange', () => import('./commands/own.ts')),
  row('Owe', 'quiet', 'be left alone, for a while or at certain hours', () => import('./commands/quiet.ts')),
  row('Owe', 'approve', 'say yes to a request, as a person at a terminal', () => import('./commands/approve.ts')),
  row('Owe', 'deny', 'say no to a request, as a person at a terminal', () => import('./commands/deny.ts')),
  row('Look back', 'events', 'everything I may see, and what became of it', () => import('./commands/events.ts')),
  row('Look back', 'why', 'who did what with a message, when and why', () => import('./commands/why.ts')),
  row('Look back', 'trace', 'what became of a message, with the evidence', () => import('./commands/trace.ts')),
  row('Look back', 'history', 'what was said, newest first', () => import('./commands/history.ts')),
  row('Look back', 'search', 'find messages by their words', () => import('./commands/search.ts')),
  row('Other machines', 'join', 'accept an invite to a room of a relay', () => import('./commands/join.ts')),
  row('Other machines', 'invite', 'write an invite to a room of a relay', () => import('./commands/invite.ts')),
  row('Other machines', 'room', 'make a room on a relay', () => import('./commands/room.ts')),
  row(
    'Other machines',
    'outbox',
    'what I sent to a relay and may not have arrived',
    () => import('./commands/outbox.ts'),
  ),
  row('Other machines', 'relay', 'serve rooms to agents on other machines', () => import('./commands/relay.ts')),
  row(
    'Keep house',
    'host',
    'serve my mail to programs that run models, and to chats',
    () => import('./commands/host.ts'),
  ),
  row('Keep house', 'up', 'run the daemon that keeps doors open for others', () => import('./commands/up.ts')),
  row('Keep house', 'down', 'end the daemon', () => import('./commands/down.ts')),
  row('Keep house', 'status', 'what runs, and whether it answers', () => import('./commands/status.ts')),
  row('Keep house', 'doctor', 'look for trouble and say what to do', () => import('./commands/doctor.ts')),
  row('Keep house', 'config', 'every setting, and where its value comes from', () => import('./commands/config.ts')),
  row('Keep house', 'prune', 'forget old bodies and old traces', () => import('./commands/prune.ts')),
  row('Keep house', 'forget', 'remove an agent with everything it had', () => import('./commands/forget.ts')),
  row('Keep house', 'completion', 'a completion script for the shell', () => import('./commands/completion.ts')),
  row('Keep house', 'self', 'install or remove this program', () => import('./commands/self.ts')),
  row('Keep house', 'version', 'the version of this program', () => import('./commands/version.ts')),
];

function row(group: Row['group'], name: string, summary: string, load: Row['load']): Row {
  return { name, group, summary, load };
}
