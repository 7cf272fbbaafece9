import { statSync } from 'node:fs';
import { visibleLine } from '../../delivery/visible.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { explained, ifThere } from '../../storage/disk.ts';
import { BadArguments } from '../arguments.ts';
import { writeAll } from '../terminal.ts';
import { C2c } from './c2c/c2c.ts';
import type { C2cCommand } from './c2c/command.ts';
import { brokerRoot } from './c2c/root.ts';

/** The commands of c2c. The file behind each is read only when the command is called. */
const COMMANDS: Record<string, () => Promise<{ default: C2cCommand }>> = {
  register: () => import('./c2c/register.ts'),
  whoami: () => import('./c2c/whoami.ts'),
  list: () => import('./c2c/list.ts'),
  send: () => import('./c2c/send.ts'),
  'send-all': () => import('./c2c/send-all.ts'),
  'poll-inbox': () => import('./c2c/poll-inbox.ts'),
  'peek-inbox': () => import('./c2c/peek-inbox.ts'),
  history: () => import('./c2c/history.ts'),
  rooms: () => import('./c2c/rooms.ts'),
  room: () => import('./c2c/rooms.ts'),
  'my-rooms': () => import('./c2c/my-rooms.ts'),
  'dead-letter': () => import('./c2c/dead-letter.ts'),
  'set-dnd': () => import('./c2c/dnd.ts'),
  dnd: () => import('./c2c/dnd.ts'),
  'open-pending-reply': () => import('./c2c/open-pending-reply.ts'),
  'check-pending-reply': () => import('./c2c/check-pending-reply.ts'),
  'clear-compact': () => import('./c2c/compact.ts'),
  'set-compact': () => import('./c2c/compact.ts'),
  repo: () => import('./c2c/repo.ts'),
  monitor: () => import('./c2c/monitor.ts'),
  hook: () => import('./c2c/hook.ts'),
  mcp: () => import('./c2c/mcp.ts'),
  serve: () => import('./c2c/mcp.ts'),
  'oc-plugin': () => import('./c2c/oc-plugin.ts'),
  statefile: () => import('./c2c/statefile.ts'),
  install: () => import('./c2c/install.ts'),
  'wire-daemon': () => import('./c2c/wire-daemon.ts'),
  'deliver-inbox': () => import('./c2c/deliver-inbox.ts'),
  start: () => import('./c2c/start.ts'),
  stop: () => import('./c2c/stop.ts'),
  restart: () => import('./c2c/restart.ts'),
  instances: () => import('./c2c/instances.ts'),
  doctor: () => import('./c2c/doctor.ts'),
  version: () => import('./c2c/version.ts'),
  help: () => import('./c2c/help.ts'),
};

/** `c2c <command> …`: the commands, broker directory and texts of c2c. Every "no" is one line `error: …` and exit code 1. */
export async function runC2c(argv: string[]): Promise<void> {
  try {
    const [name = 'help', ...rest] = argv[0] === 'help' && argv[1] ? [argv[1], '--help'] : argv;
    const command = await find(name);
    const c2c = new C2c(process.env, process.cwd());
    await command.run(c2c, rest, name);
    await c2c.tellRepairs();
  } catch (thrown) {
    const error = ofTheDisk(thrown);
    if (!(error instanceof Refusal) && !(error instanceof BadArguments)) throw error;
    writeAll(2, `error: ${visibleLine(error.message, 1000)}\n`);
    process.exitCode = 1;
  }
}

async function find(name: string): Promise<C2cCommand> {
  const word = name === '--help' || name === '-h' ? 'help' : name === '--version' ? 'version' : name;
  const load = Object.hasOwn(COMMANDS, word) ? COMMANDS[word] : undefined;
  if (load) return (await load()).default;
  const { nearest } = await import('../../flow/nearest.ts');
  const [near] = nearest(word, Object.keys(COMMANDS));
  const shown = word.replace(/\p{Cc}/gu, '?').slice(0, 40);
  throw new Refusal(
    'invalid_request',
    `unknown command "${shown}"; ${near ? `did you mean \`c2c ${near}\`?` : 'see `c2c help`'}`,
  );
}

/** A broker that is no folder, or a disk that refuses, is no bug. What was done by then cannot be told here. */
function ofTheDisk(error: unknown): unknown {
  if (!(error instanceof Error) || !('path' in error)) return error;
  const root = brokerRoot(process.env, process.cwd());
  const isFolder = ifThere(() => statSync(root))?.isDirectory() ?? true;
  return explained(error, isFolder ? String(error.path).replace(/\/[^/]*$/, '') : root, 'it was not finished');
}
