import { visibleLine } from '../../delivery/gate.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { BadArguments } from '../arguments.ts';
import { writeAll } from '../terminal.ts';
import { Bch } from './bch/bch.ts';
import type { BchCommand } from './bch/command.ts';

/** The commands of Backchannel. The file behind each is read only when the command is called. */
const COMMANDS: Record<string, () => Promise<{ default: BchCommand }>> = {
  init: () => import('./bch/init.ts'),
  send: () => import('./bch/send.ts'),
  inbox: () => import('./bch/inbox.ts'),
  drain: () => import('./bch/drain.ts'),
  read: () => import('./bch/read.ts'),
  watch: () => import('./bch/watch.ts'),
  sub: () => import('./bch/sub.ts'),
  unsub: () => import('./bch/unsub.ts'),
  agents: () => import('./bch/agents.ts'),
  channels: () => import('./bch/channels.ts'),
  whoami: () => import('./bch/whoami.ts'),
  room: () => import('./bch/room.ts'),
  invite: () => import('./bch/invite.ts'),
  join: () => import('./bch/join.ts'),
  relay: () => import('./bch/relay.ts'),
  mcp: () => import('./bch/mcp.ts'),
  setup: () => import('./bch/setup.ts'),
  help: () => import('./bch/help.ts'),
};

/** `bch <command> …`: Backchannel's own commands, home and texts. Every "no" is one line `error: …` and exit code 1. */
export async function runBch(argv: string[]): Promise<void> {
  try {
    const [name = 'help', ...rest] = argv;
    const command = await find(name);
    await command.run(new Bch(process.env), rest);
  } catch (error) {
    if (!(error instanceof Refusal) && !(error instanceof BadArguments)) throw error;
    writeAll(2, `error: ${visibleLine(error.message, 1000)}\n`);
    process.exitCode = 1;
  }
}

async function find(name: string): Promise<BchCommand> {
  const word = name === '--help' || name === '-h' ? 'help' : name;
  const load = Object.hasOwn(COMMANDS, word) ? COMMANDS[word] : undefined;
  if (load) return (await load()).default;
  throw new Refusal('invalid_request', `unknown command "${word}" — run \`bch help\``);
}
