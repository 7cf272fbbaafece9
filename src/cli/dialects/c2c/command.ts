import { BadArguments, parseArguments } from '../../arguments.ts';
import type { Option, Options, Values } from '../../command.ts';
import type { C2c } from './c2c.ts';

export interface C2cCommand {
  /** `called` is the word by which it was called: some commands have two. */
  run(c2c: C2c, argv: string[], called: string): Promise<void>;
}

/** The kinds of option; `c2c help` says in its own words what each is for. */
export const FLAG = { type: 'boolean', help: '' } as const satisfies Option;
export const TEXT = { type: 'string', help: '' } as const satisfies Option;
export const TEXTS = { type: 'string', multiple: true, help: '' } as const satisfies Option;

/** Describes a command of this dialect. `words` are its positional arguments: how many at least and at most. */
export function c2cCommand<const O extends Options>(spec: {
  usage: string;
  options: O;
  words: readonly [min: number, max: number];
  run(c2c: C2c, values: Values<O>, words: string[], called: string): Promise<void>;
}): C2cCommand {
  return {
    async run(c2c, argv, called) {
      const usage = `usage: c2c ${spec.usage}`;
      // Further behind it could be a word of a message, and whoever sends one must not be answered with a text and success.
      if (argv[0] === '--help' || argv[0] === '-h') return c2c.say(`${usage}\nMore: c2c help`);
      const { values, words } = parsed(spec.options, argv, usage);
      const [min, max] = spec.words;
      if (words.length < min || words.length > max) throw new BadArguments(usage);
      await spec.run(c2c, values as Values<O>, words, called);
    },
  };
}

function parsed(options: Options, argv: string[], usage: string): ReturnType<typeof parseArguments> {
  try {
    return parseArguments(options, argv);
  } catch (error) {
    if (!(error instanceof BadArguments)) throw error;
    throw new BadArguments(`${error.message}; ${usage}`);
  }
}
