import { CLIENT_NAMES } from '../clients/client-names.ts';
import type { Command, Dialect, Options, Row } from '../core/command.ts';
import { nearest } from '../core/nearest.ts';
import { columns, hasColour, Paint, wrapped, writeAll } from '../platform/terminal.ts';
import { Context } from './context.ts';
import { refused } from './failure.ts';

/** Every command takes these. */
export const COMMON: Options = {
  json: { type: 'boolean', help: 'print JSON' },
  as: { type: 'string', value: 'agent', help: 'act as this agent' },
  verbose: { type: 'boolean', help: 'log more on stderr' },
  help: { type: 'boolean', short: 'h', help: 'show this help' },
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
      if (['help', '--help', '-h'].includes(name)) {
        const [asked = '', ...more] = words.filter((word) => !HELP_OPTIONS.includes(word));
        return {
          name: asked,
          rest: [...leading, ...words.filter((word) => HELP_OPTIONS.includes(word)), ...more],
          help: true,
        };
      }
      return { name: ['--version', '-v', '-V'].includes(name) ? 'version' : name, rest: [...leading, ...words] };
    },
    open: (values) => new Context(process.env, process.cwd(), values),
    help(command, options = []) {
      const paint = new Paint(hasColour(process.env));
      if (options.includes('--json'))
        return JSON.stringify(command === null ? table(rows) : described(command), null, 2);
      if (command !== null) return helpFor(command, paint);
      return options.includes('--all') ? helpForAll(rows, paint) : helpForNewcomers(rows, paint);
    },
    unknown(name) {
      if (name.startsWith('-')) return unknownOption(name);
      const [near] = nearest(name, [...rows.map((row) => row.name), ...CLIENT_NAMES]);
      const words = CLIENT_NAMES.some((client) => client === near) ? `install ${near}` : near;
      const shown = name.replace(/\p{Cc}/gu, '?').slice(0, 40);
      return `unknown command "${shown}"; ${words ? `did you mean \`parley ${words}\`?` : 'see `parley help`'}`;
    },
    wrong(problem, command) {
      return 'option' in problem ? wrongOption(problem.option, command) : `usage: parley ${command.usage}`;
    },
    refused,
    say: (text) => writeAll(1, `${text}\n`),
  };
}

/** `parley help` takes these. */
const HELP_OPTIONS = ['--all', '--json'];

/** Options that every command takes may come before the command too. */
function splitLeading(argv: readonly string[]): [leading: string[], rest: string[]] {
  let at = 0;
  for (let arg = argv[at]; arg !== undefined && isLeading(arg); arg = argv[at]) at += arg === '--as' ? 2 : 1;
  return [argv.slice(0, at), argv.slice(at)];
}

function isLeading(arg: string): boolean {
  return arg === '--json' || arg === '--verbose' || arg === '--as' || arg.startsWith('--as=');
}

/** Unknown options are errors, because models misspell; the nearest known one is named. */
function wrongOption(problem: string, { options, usage }: Command<Context>): string {
  const [, needy] = /^Option '(--[\w-]+) <value>' argument/.exec(problem) ?? [];
  if (needy) return `${needy} needs a value (one that begins with - is written ${needy}=-…)`;
  const unknown = /^Unknown option '--?([^']+)'/.exec(problem)?.[1];
  const [near] = unknown ? nearest(unknown, Object.keys(shownOptions(options))) : [];
  const help = `parley help ${usage.split(' ')[0] ?? ''}`.trimEnd();
  return `${problem}; ${near ? `did you mean --${near}? See` : 'see'} \`${help}\``;
}

/** An option where a command should be. */
function unknownOption(name: string): string {
  const [near] = nearest(name.replace(/^-+/, ''), ['all', 'version', ...Object.keys(COMMON)]);
  const shown = name.replace(/\p{Cc}/gu, '?').slice(0, 40);
  return `Unknown option '${shown}'; ${near ? `did you mean --${near}? See` : 'see'} \`parley help\``;
}

/** What a newcomer needs, by what it is for. The rest is one option away. */
const FIRST_COMMANDS = {
  Start: ['init', 'run', 'install', 'agents'],
  Write: ['send', 'reply'],
  Read: ['inbox', 'read', 'owe'],
  Sessions: ['session', 'ask'],
  Check: ['trace', 'doctor'],
};

function helpForNewcomers(rows: readonly ListedRow[], paint: Paint): string {
  const groups = Object.entries(FIRST_COMMANDS).map(
    ([title, names]) => [title, rows.filter(({ name }) => names.includes(name))] as const,
  );
  return helpPage(groups, paint, ['One command: parley help <command>      All commands: parley help --all']);
}

/** The help of the whole program, made from the table of commands. */
function helpForAll(rows: readonly ListedRow[], paint: Paint): string {
  const notes = ['Every command takes --help (with examples), --json, --as <agent> and --verbose.'];
  return helpPage([...Map.groupBy(rows, ({ group }) => group)], paint, notes);
}

function helpPage(
  groups: readonly (readonly [title: string, rows: readonly ListedRow[]])[],
  paint: Paint,
  notes: readonly string[],
): string {
  const width = Math.max(...groups.flatMap(([, rows]) => rows.map(({ name }) => name.length))) + 2;
  const sections = groups.map(([title, rows]) =>
    [paint.bold(title), ...rows.flatMap(({ name, summary }) => hanging(`  ${name.padEnd(width)}`, summary))].join('\n'),
  );
  const last = notes.flatMap((note) => hanging('', note)).join('\n');
  return ['parley: mail for coding agents that can prove it arrived', ...sections, last].join('\n\n');
}

/** The table of commands for programs. */
function table(rows: readonly ListedRow[]): object[] {
  return rows.map(({ name, group, summary }) => ({ name, group, summary }));
}

/** One command for programs. */
function described({ usage, about, paste, options, examples }: Command<Context>): object {
  return {
    usage,
    about: paste === undefined ? about : `${about}\n\n${paste}`,
    options: shownOptions(options),
    examples: examples ?? [],
  };
}

/** The help of one command, made from its own description. */
function helpFor(command: Command<Context>, paint: Paint): string {
  return [
    hanging('parley ', command.usage).join('\n').replace('parley', paint.bold),
    '',
    ...paragraphs(command.about ?? ''),
    ...(command.paste === undefined ? [] : ['', command.paste]),
    '',
    ...optionLines(shownOptions(command.options)),
    ...(command.examples ? ['', 'Examples:', ...command.examples.map((line) => `  ${line}`)] : []),
  ].join('\n');
}

/** What a command takes, except what only Parley itself gives. */
export function shownOptions(options: Options): Options {
  return Object.fromEntries(Object.entries({ ...options, ...COMMON }).filter(([, { isInternal }]) => !isInternal));
}

function optionLines(options: Options): string[] {
  const rows = Object.entries(options).map(([name, option]) => {
    const value = option.type === 'string' ? ` <${option.value ?? 'text'}>` : '';
    const short = option.short ? `-${option.short}, ` : '';
    return { left: `  ${short}--${name}${value}${option.multiple ? ' …' : ''}`, help: option.help };
  });
  const width = Math.max(...rows.map((row) => row.left.length)) + 2;
  return rows.flatMap((row) => hanging(row.left.padEnd(width), row.help));
}

/** The lines of a text, each broken so that it fits into the window. */
function paragraphs(text: string): string[] {
  return text.split('\n').flatMap((line) => hanging('', line));
}

/** What is described, and beside it a text in as many lines as it needs. */
function hanging(left: string, text: string): string[] {
  const room = columns() - left.length;
  // In a narrow window the text goes below.
  const [at, lines] =
    room < LEAST_ROOM ? [4, wrapped(text, Math.max(columns() - 4, 1))] : [left.length, wrapped(text, room)];
  const below = lines.map((line) => ' '.repeat(at) + line);
  return room < LEAST_ROOM ? [left.trimEnd(), ...below] : [left + (lines[0] ?? ''), ...below.slice(1)];
}

const LEAST_ROOM = 20;
