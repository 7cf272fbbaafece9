import type { Options } from './command.ts';

/** A command line that does not fit its command. Other programs rely on these texts: they are Node's. */
export class BadArguments extends Error {}

/**
 * Splits a command line into options and words, strictly: unknown options and missing values are errors. The same rules as
 * Node's `parseArgs`, which costs 1.3 ms to import: too much for a command that sends one message.
 */
export function parseArguments(
  options: Options,
  argv: readonly string[],
): { values: Record<string, unknown>; words: string[] } {
  const values: Record<string, unknown> = {};
  const words: string[] = [];
  const rest = [...argv];
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    if (arg === '--') return { values, words: [...words, ...rest] };
    if (arg.startsWith('--')) takeOption(options, values, arg.slice(2), rest);
    else if (arg.startsWith('-') && arg !== '-') takeShort(options, values, arg, rest);
    else words.push(arg);
  }
  return { values, words };
}

function takeOption(options: Options, values: Record<string, unknown>, text: string, rest: string[]): void {
  const at = text.indexOf('=');
  const name = at < 0 ? text : text.slice(0, at);
  const given = at < 0 ? undefined : text.slice(at + 1);
  const option = Object.hasOwn(options, name) ? options[name] : undefined;
  if (!option) throw new BadArguments(`Unknown option '--${name}'`);
  if (option.type === 'boolean') {
    if (given !== undefined) throw new BadArguments(`Option '--${name}' does not take an argument`);
    values[name] = true;
    return;
  }
  const value = given ?? rest.shift();
  const isOption = given === undefined && value !== undefined && value.startsWith('-') && value !== '-';
  if (value === undefined || isOption)
    throw new BadArguments(`Option '--${name} <value>' argument ${isOption ? 'is ambiguous' : 'missing'}`);
  values[name] = option.multiple ? [...((values[name] as string[] | undefined) ?? []), value] : value;
}

function takeShort(options: Options, values: Record<string, unknown>, arg: string, rest: string[]): void {
  const name = Object.keys(options).find((one) => options[one]?.short === arg[1]);
  if (!name || arg.length > 2) throw new BadArguments(`Unknown option '${arg}'`);
  takeOption(options, values, name, rest);
}
