/** One row of the table of commands. */
interface Row {
  name: string;
  group: 'Start' | 'Write' | 'Read' | 'Owe' | 'Look back' | 'Other machines' | 'Keep house';
  summary: string;
}

/** Every command, in the order of the help. The files behind them are found by load.ts, which needs no table. */
export const COMMANDS = [
  row('Start', 'init', 'make a mailbox, for an agent or a person'),
  row('Start', 'demo', 'watch two scripted agents exchange a message'),
  row('Start', 'install', 'add Parley to the clients that are here'),
  row('Start', 'whoami', 'who I am, and where my mail waits'),
  row('Start', 'trust', 'let the files count that came with a repository'),
  row('Start', 'agents', 'who is here'),
  row('Start', 'role', 'give a role to an agent, or take it away'),
  row('Start', 'channels', 'which channels exist'),
  row('Write', 'send', 'leave a message for an agent, a role or a channel'),
  row('Write', 'reply', 'answer a message, and settle it'),
  row('Write', 'react', 'answer with one word that costs nobody a turn'),
  row('Write', 'raise', 'hand to an agent what was said to nobody, as a person'),
  row('Write', 'withdraw', 'take back the copies that nobody has taken'),
  row('Write', 'sub', 'subscribe to a channel'),
  row('Write', 'unsub', 'leave a channel'),
  row('Read', 'inbox', 'what waits for me; takes nothing'),
  row('Read', 'read', 'show one whole message, and take it if it waits for me'),
  row('Read', 'take', 'take one message'),
  row('Read', 'ack', 'settle a message that waits or that I hold'),
  row('Read', 'release', 'give back a message that I hold'),
  row('Read', 'drain', 'take everything that waits for me here'),
  row('Read', 'watch', 'wait for mail and show it, or run a command on it'),
  row('Read', 'hook', "put waiting mail before a client's model (called by the client)"),
  row('Read', 'mcp', 'offer my mail as tools over MCP (called by a client)'),
  row('Owe', 'owe', 'what I must answer, and what others owe me'),
  row('Owe', 'claim', 'answer for what several could answer'),
  row('Owe', 'defer', 'put off what I owe, and say why'),
  row('Owe', 'resolve', 'say that a message or an exchange is dealt with'),
  row('Owe', 'own', 'be the one who is asked about a channel or an exchange'),
  row('Owe', 'quiet', 'be left alone, for a while or at certain hours'),
  row('Owe', 'approve', 'say yes to a request, as a person at a terminal'),
  row('Owe', 'deny', 'say no to a request, as a person at a terminal'),
  row('Look back', 'events', 'everything I may see, and what became of it'),
  row('Look back', 'why', 'who did what with a message, when and why'),
  row('Look back', 'trace', 'what became of a message, with the evidence'),
  row('Look back', 'history', 'what was said, newest first'),
  row('Look back', 'search', 'find messages by their words'),
  row('Other machines', 'join', 'accept an invite to a room of a relay'),
  row('Other machines', 'invite', 'write an invite to a room of a relay'),
  row('Other machines', 'room', 'make a room on a relay'),
  row('Other machines', 'outbox', 'what I sent to a relay and may not have arrived'),
  row('Other machines', 'relay', 'serve rooms to agents on other machines'),
  row('Keep house', 'host', 'serve my mail to programs that run models, and to chats'),
  row('Keep house', 'up', 'run the daemon that keeps doors open for others'),
  row('Keep house', 'down', 'end the daemon'),
  row('Keep house', 'status', 'what runs, and whether it answers'),
  row('Keep house', 'doctor', 'look for trouble and say what to do'),
  row('Keep house', 'config', 'every setting, and where its value comes from'),
  row('Keep house', 'prune', 'forget old bodies and old traces'),
  row('Keep house', 'forget', 'remove an agent with everything it had'),
  row('Keep house', 'completion', 'a completion script for the shell'),
  row('Keep house', 'self', 'install or remove this program'),
  row('Keep house', 'version', 'the version of this program'),
] as const;

export type CommandName = (typeof COMMANDS)[number]['name'];

function row<const Name extends string>(group: Row['group'], name: Name, summary: string): Row & { name: Name } {
  return { name, group, summary };
}
