import { Refusal } from '../protocol/refusal.ts';
import { BadArguments, parseArguments } from './arguments.ts';
import type { Context } from './context.ts';
import { nearest } from '../flow/nearest.ts';

export interface Option {
  type: 'boolean' | 'string';
  multiple?: true;
  short?: string;
  /** What the value is called in the help. */
  value?: string;
  help: string;
}
export type Options = Record<string, Option>;

type Value<O extends Option> = O['type'] extends 'boolean' ? boolean : O extends { multiple: true } ? string[] : string;
/** What the command line gave: a missing option is undefined. */
export type Values<O extends Options> = { [K in keyof O]?: Value<O[K]> };

/** One command: a file exports one, made by `command`. */
export interface Command {
  usage: string;
  about: string;
  options: Options;
  examples: readonly string[];
  run(context: Context, values: Record<string, unknown>, words: string[]): Promise<void>;
}

/** Describes a command. `words` are its positional arguments: how many at least and at most. */
export function command<const O extends Options>(spec: {
  usage: string;
  about: string;
  options: O;
  words: readonly [min: number, max: number];
  examples: readonly string[];
  run(context: Context, values: Values<O>, words: string[]): Promise<void>;
}): Command {
  return {
    ...spec,
    async run(context, values, words) {
      const [min, max] = spec.words;
      if (words.length < min || words.length > max) {
        throw new Refusal('invalid_request', `usage: parley ${spec.usage}`);
      }
      await spec.run(context, values as Values<O>, words);
    },
  };
}

/** Every command takes these. */
export const COMMON: Options = {
  json: { type: 'boolean', help: 'one JSON value instead of words' },
  as: { type: 'string', value: 'agent', help: 'act as this agent' },
  verbose: { type: 'boolean', help: 'say more on stderr' },
  help: { type: 'boolean', short: 'h', help: 'show this' },
};

/** Unknown options are errors, because models misspell; the nearest known one is named. */
export function parse(options: Options, argv: string[]): { values: Record<string, unknown>; words: string[] } {
  try {
    return parseArguments(options, argv);
  } catch (error) {
    if (!(error instanceof BadArguments)) throw error;
    const unknown = /^Unknown option '--?([^']+)'/.exec(error.message)?.[1];
    const [near] = unknown ? nearest(unknown, Object.keys(options)) : [];
    const [, needy] = /^Option '(--[\w-]+) <value>' argument/.exec(error.message) ?? [];
    if (needy)
      throw new Refusal('invalid_request', `${needy} needs a value (one that begins with - is written ${needy}=-…)`);
    throw new Refusal('invalid_request', near ? `${error.message}; did you mean --${near}?` : error.message);
  }
}
