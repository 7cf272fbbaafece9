import type { Command, Dialect, Options, Row } from '../core/command.ts';
import { nearest } from '../core/nearest.ts';
import { hasColour, Paint, writeAll } from '../platform/terminal.ts';
import { Context } from './context.ts';
import { refused } from './failure.ts';

/** Every command takes these. */
export const COMMON: Options = {
  json: { type: 'boolean', help: 'one JSON value instead of words' },
  as: { type: 'string', value: 'agent', help: 'act as this agent' },
  verbose: { type: 'boolean', help: 'say more on stderr' },
  help: { type: 'boolean', short: 'h', help: 'show this' },
};

type ListedRow = Row<Context> & { group: string; summary: string };

/** `parley <command> …`, in Parley's own words. */
export function parley(rows: readonly ListedRow[]): Dialect<Context> {
  return {
    name: 'parley',
    common: COMMON,
    read(argv) {
      const [leading, [given, ...words]] = splitLeading(argv);
      // `parley` alone is the overview; `parley ""` is a wrong command.
      const name = given === '' ? '""' : (given ?? '');
      if (['help', '--help', '-h'].includes(name)) return { name: words[0] ?? '', rest: [], help: true };
      return { name: name === '--version' ? 'version' : name, rest: [...leading, ...words] };
    },
    open: (values) => new Context(process.env, process.cwd(), values),
    help(command) {
      const paint = new Paint(hasColour(process.env));
      return command === null ? helpForAll(rows, paint) : helpFor(command, paint);
    },
    unknown(name) {
      const [near] = nearest(
        name,
        rows.map((row) => row.name),
      );
      const shown = name.replace(/\p{Cc}/gu, '?').slice(0, 40);
      return `unknown command "${shown}"; ${near ? `did you mean \`parley ${near}\`?` : 'see `parley help`'}`;
    },
    wrong(problem, command) {
      return 'option' in problem ? wrongOption(problem.option, command.options) : `usage: parley ${command.usage}`;
    },
    refused,
    say: (text) => writeAll(1, `${text}\n`),
  };
}

/** Options that every command takes may stand before the command too. */
function splitLeading(argv: readonly string[]): [leading: string[], rest: string[]] {
  let at = 0;
  for (let arg = argv[at]; arg !== undefined && isLeading(arg); arg = argv[at]) at += arg === '--as' ? 2 : 1;
  return [argv.slice(0, at), argv.slice(at)];
}

function isLeading(arg: string): boolean {
  return arg === '--json' || arg === '--verbose' || arg === '--as' || arg.startsWith('--as=');
}

/** Unknown options are errors, because models misspell; the nearest known one is named. */
function wrongOption(problem: string, options: Options): string {
  const unknown = /^Unknown option '--?([^']+)'/.exec(problem)?.[1];
  const [near] = unknown ? nearest(unknown, Object.keys({ ...options, ...COMMON })) : [];
  const [, needy] = /^Option '(--[\w-]+) <value>' argument/.exec(problem) ?? [];
  if (needy) return `${needy} needs a value (one that begins with - is written ${needy}=-…)`;
  return near ? `${problem}; did you mean --${near}?` : problem;
}

/** The help of the whole program, made from the table of commands. */
function helpForAll(rows: readonly ListedRow[], paint: Paint): string {
  const groups = [...new Set(rows.map((row) => row.group))];
  const width = Math.max(...rows.map((row) => row.name.length)) + 2;
  const sections = groups.map((group) => {
    const lines = rows.filter((row) => row.group === group).map((row) => `  ${row.name.padEnd(width)}${row.summary}`);
    return [paint.bold(group), ...lines].join('\n');
  });
  return [
    'parley: mail for coding agents that can prove it arrived',
    '',
    sections.join('\n\n'),
    '',
    'Every command takes --help (with examples), --json, --as <agent> and --verbose.',
  ].join('\n');
}

/** The help of one command, made from its own description. */
function helpFor(command: Command<Context>, paint: Paint): string {
  return [
    `${paint.bold('parley')} ${command.usage}`,
    '',
    command.about ?? '',
    '',
    ...optionLines({ ...command.options, ...COMMON }),
    ...(command.examples ? ['', 'Examples:', ...command.examples.map((line) => `  ${line}`)] : []),
  ].join('\n');
}

function optionLines(options: Options): string[] {
  const rows = Object.entries(options).map(([name, option]) => {
    const value = option.type === 'string' ? ` <${option.value ?? 'text'}>` : '';
    const short = option.short ? `-${option.short}, ` : '';
    return { left: `  ${short}--${name}${value}${option.multiple ? ' …' : ''}`, help: option.help };
  });
  const width = Math.max(...rows.map((row) => row.left.length)) + 2;
  return rows.map((row) => row.left.padEnd(width) + row.help);
}
