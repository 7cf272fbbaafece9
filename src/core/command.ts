import { Refusal } from './refusal.ts';

export interface Option {
  type: 'boolean' | 'string';
  multiple?: true;
  short?: string;
  /** The name of the value in the help. */
  value?: string;
  help: string;
  /** Only Parley itself passes this option, so the help leaves it out. */
  isInternal?: true;
}
export type Options = Record<string, Option>;

/** The kinds of option, for a dialect whose help is one text that describes the options itself. */
export const FLAG = { type: 'boolean', help: '' } as const satisfies Option;
export const TEXT = { type: 'string', help: '' } as const satisfies Option;
export const TEXTS = { type: 'string', multiple: true, help: '' } as const satisfies Option;

type Value<O extends Option> = O['type'] extends 'boolean' ? boolean : O extends { multiple: true } ? string[] : string;
/** What the command line gave: a missing option is undefined. */
export type Values<O extends Options> = { [K in keyof O]?: Value<O[K]> };

interface Description<C, V> {
  /** The name of the command, and its arguments. */
  usage: string;
  /** What the command does, for its help. */
  about?: string;
  /** Lines to copy from its help: they are printed below `about` as they are. */
  paste?: string;
  examples?: readonly string[];
  run(context: C, values: V, words: string[]): Promise<void>;
}

/** The fewest and the most positional arguments of a command. */
type Words = readonly [min: number, max: number];

/** One command of any dialect. Its name and summary are in the table of commands, so that the list of commands loads no command. */
export interface Command<C> extends Description<C, Record<string, unknown>> {
  options: Options;
  words: Words;
  /** The first word names a program, and the words after it belong to that program. Only options of this command with a value may come between. */
  passes?: true;
}

/** Declares a command; without `options` and `words` it takes none. `run` gets the options by their types. */
export function command<C, const O extends Options = Record<string, never>>(
  spec: Description<C, Values<O>> & { options?: O; words?: Words; passes?: true },
): Command<C> {
  return { options: {}, words: [0, 0], ...spec };
}

/** One row of the table of commands. The command is loaded when it is called. */
export interface Row<C> {
  name: string;
  load: () => Promise<Command<C>>;
}

/** What is wrong with a command line: an option, in Node's words, on which other programs rely; or the number of words. */
type Problem = { option: string } | { words: readonly string[] };

/** The behaviour of the program under one of its names: how it reads the command line, opens the context, and words refusals. */
export interface Dialect<C> {
  name: string;
  /** Options that every command takes. */
  common: Options;
  /** The command of a command line, the words left for it, and whether only its help is wanted. An empty name means no command. */
  read(argv: readonly string[]): { name: string; rest: string[]; help?: boolean };
  /** The context of the commands. Its parts are opened only when they are used. */
  open(values: Record<string, unknown>): C;
  /** The help of one command, or of all. `options` is the rest of the command line. */
  help(command: Command<C> | null, options?: readonly string[]): string;
  unknown(name: string): string;
  wrong(problem: Problem, command: Command<C>): string;
  /** Prints a refusal on stderr and returns its exit code; null for any other error. */
  refused(error: unknown): number | null;
  say(text: string): void;
  /** Called after a command that succeeded. */
  done?(context: C): Promise<void>;
}

/** Runs one command line. Throws every error that is not a Refusal: it is our bug. */
export async function run<C>(dialect: Dialect<C>, rows: readonly Row<C>[], argv: readonly string[]): Promise<void> {
  try {
    await runRow(dialect, rows, argv);
  } catch (error) {
    const code = dialect.refused(error);
    if (code === null) throw error;
    process.exitCode = code;
  }
}

async function runRow<C>(dialect: Dialect<C>, rows: readonly Row<C>[], argv: readonly string[]): Promise<void> {
  const { name, rest, help = false } = dialect.read(argv);
  if (help && name === '') return dialect.say(dialect.help(null, rest));
  const found = await rows.find((row) => row.name === name)?.load();
  if (!found) throw new Refusal('invalid_request', dialect.unknown(name));
  if (help) return dialect.say(dialect.help(found, rest));
  const { values, words } = parse(dialect, found, rest);
  if (values['help'] === true) return dialect.say(dialect.help(found, rest));
  const [min, max] = found.words;
  if (words.length < min || words.length > max) throw new Refusal('invalid_request', dialect.wrong({ words }, found));
  const context = dialect.open(values);
  await found.run(context, values, words);
  await dialect.done?.(context);
}

function parse<C>(dialect: Dialect<C>, found: Command<C>, argv: readonly string[]): ReturnType<typeof parseArguments> {
  try {
    return parseArguments({ ...found.options, ...dialect.common }, argv, found.passes);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw new Refusal('invalid_request', dialect.wrong({ option: error.message }, found));
  }
}

/** Splits a command line into options and words, by the rules and with the texts of Node's `parseArgs`: unknown options are errors. */
export function parseArguments(
  options: Options,
  argv: readonly string[],
  passes = false,
): { values: Record<string, unknown>; words: string[] } {
  const values: Record<string, unknown> = {};
  const words: string[] = [];
  const rest = [...argv];
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    if (arg === '--') return { values, words: [...words, ...rest] };
    if (passes && words.length > 0 && !takesValue(options, arg)) return { values, words: [...words, arg, ...rest] };
    if (arg.startsWith('--')) takeOption(options, values, arg.slice(2), rest);
    else if (arg.startsWith('-') && arg !== '-') takeShort(options, values, arg, rest);
    else words.push(arg);
  }
  return { values, words };
}

/** Is this one of the command's own options with a value, such as `--as` or `--as=name`? */
function takesValue(options: Options, arg: string): boolean {
  const [, name = ''] = /^--([^=]+)/.exec(arg) ?? [];
  return Object.hasOwn(options, name) && options[name]?.type === 'string';
}

function takeOption(options: Options, values: Record<string, unknown>, text: string, rest: string[]): void {
  const at = text.indexOf('=');
  const name = at < 0 ? text : text.slice(0, at);
  const given = at < 0 ? undefined : text.slice(at + 1);
  const option = Object.hasOwn(options, name) ? options[name] : undefined;
  if (!option) throw bad(`Unknown option '--${name}'`);
  if (option.type === 'boolean') {
    if (given !== undefined) throw bad(`Option '--${name}' does not take an argument`);
    values[name] = true;
    return;
  }
  const value = given ?? rest.shift();
  const isOption = given === undefined && value !== undefined && value.startsWith('-') && value !== '-';
  if (value === undefined || isOption)
    throw bad(`Option '--${name} <value>' argument ${isOption ? 'is ambiguous' : 'missing'}`);
  values[name] = option.multiple ? [...((values[name] as string[] | undefined) ?? []), value] : value;
}

function takeShort(options: Options, values: Record<string, unknown>, arg: string, rest: string[]): void {
  const name = Object.keys(options).find((one) => options[one]?.short === arg[1]);
  if (!name || arg.length > 2) throw bad(`Unknown option '${arg}'`);
  takeOption(options, values, name, rest);
}

function bad(text: string): Refusal {
  return new Refusal('invalid_request', text);
}
