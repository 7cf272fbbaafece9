import { Refusal } from '../protocol/refusal.ts';
import { COMMON, parse } from './command.ts';
import type { Command } from './command.ts';
import { Context } from './context.ts';
import { loadCommand } from './load.ts';

/** `parley <command> …`, in Parley's own voice. */
export async function runParley(argv: string[]): Promise<void> {
  const [leading, [name, ...words]] = splitLeading(argv);
  const rest = [...leading, ...words];
  if (name === undefined) {
    const overview = await import('./overview.ts');
    return overview.showOverview(new Context(process.env, process.cwd(), parse(COMMON, leading).values));
  }
  if (name === 'help' || name === '--help' || name === '-h') return showHelp(words[0]);
  const word = name === '--version' ? 'version' : name;
  const command = await known(word);
  const { values, words: given } = parse({ ...command.options, ...COMMON }, rest);
  if (values['help']) return showHelp(word);
  const context = new Context(process.env, process.cwd(), values);
  await command.run(context, values, given);
}

/** Options that every command takes may stand before the command too. */
function splitLeading(argv: string[]): [leading: string[], rest: string[]] {
  let at = 0;
  for (let arg = argv[at]; arg !== undefined && isLeading(arg); arg = argv[at]) at += arg === '--as' ? 2 : 1;
  return [argv.slice(0, at), argv.slice(at)];
}

function isLeading(arg: string): boolean {
  return arg === '--json' || arg === '--verbose' || arg === '--as' || arg.startsWith('--as=');
}

async function showHelp(name: string | undefined): Promise<void> {
  const { helpFor, helpForAll } = await import('./help.ts');
  const context = new Context(process.env, process.cwd(), {});
  if (!name) return context.say(helpForAll(context.paint));
  context.say(helpFor(await known(name), context.paint));
}

async function known(name: string): Promise<Command> {
  const command = await loadCommand(name);
  if (command) return command;
  const { COMMANDS } = await import('./commands.ts');
  const { nearest } = await import('../flow/nearest.ts');
  const [near] = nearest(
    name,
    COMMANDS.map((row) => row.name),
  );
  const shown = name.replace(/\p{Cc}/gu, '?').slice(0, 40);
  throw new Refusal(
    'invalid_request',
    `unknown command "${shown}"; ${near ? `did you mean \`parley ${near}\`?` : 'see `parley help`'}`,
  );
}
