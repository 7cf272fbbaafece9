import { statSync } from 'node:fs';
import { visibleLine } from '../../delivery/gate.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { explained, ifThere } from '../../storage/disk.ts';
import { BadArguments } from '../arguments.ts';
import { writeAll } from '../terminal.ts';
import { C2c } from './c2c/c2c.ts';
import type { C2cCommand } from './c2c/command.ts';
import { C2C_COMMANDS, loadC2c } from './c2c/load.ts';
import { brokerRoot } from './c2c/root.ts';

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
  const known = C2C_COMMANDS.find((one) => one === word);
  if (known) return (await loadC2c(known)).default;
  const { nearest } = await import('../../flow/nearest.ts');
  const [near] = nearest(word, C2C_COMMANDS);
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
