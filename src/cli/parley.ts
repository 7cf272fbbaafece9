import { nearest } from '../flow/nearest.ts';
import { Refusal } from '../protocol/refusal.ts';
import { COMMON, parse } from './command.ts';
import { COMMANDS } from './commands.ts';
import { Context } from './context.ts';

/** `parley <command> …`, in Parley's own voice. */
export async function runParley(argv: string[]): Promise<void> {
  const [name, ...rest] = argv;
  if (name === undefined || name === '--json') {
    const overview = await import('./overview.ts');
    return overview.showOverview(new Context(process.env, process.cwd(), { json: name === '--json' }));
  }
  if (name === 'help' || name === '--help' || name === '-h') return showHelp(rest[0]);
  const word = name === '--version' ? 'version' : name;
  const row = COMMANDS.find((one) => one.name === word);
  if (!row) throw unknownCommand(word);
  const { default: command } = await row.load();
  const { values, words } = parse({ ...command.options, ...COMMON }, rest);
  if (values['help']) return showHelp(word);
  const context = new Context(process.env, process.cwd(), values);
  await command.run(context, values, words);
}

async function showHelp(name: string | undefined): Promise<void> {
  const { helpFor, helpForAll } = await import('./help.ts');
  const context = new Context(process.env, process.cwd(), {});
  if (!name) return context.say(helpForAll(context.paint));
  const row = COMMANDS.find((one) => one.name === name);
  if (!row) throw unknownCommand(name);
  context.say(helpFor((await row.load()).default, context.paint));
}

function unknownCommand(name: string): Refusal {
  const [near] = nearest(
    name,
    COMMANDS.map((row) => row.name),
  );
  const shown = name.replace(/\p{Cc}/gu, '?').slice(0, 40);
  return new Refusal(
    'invalid_request',
    `unknown command "${shown}"; ${near ? `did you mean \`parley ${near}\`?` : 'see `parley help`'}`,
  );
}
