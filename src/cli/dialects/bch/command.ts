import { BadArguments, parseArguments } from '../../arguments.ts';
import type { Option, Options, Values } from '../../command.ts';
import type { Bch } from './bch.ts';

export interface BchCommand {
  run(bch: Bch, argv: string[]): Promise<void>;
}

/** The kinds of option; `bch help` says in its own words what each is for. */
export const FLAG = { type: 'boolean', help: '' } as const satisfies Option;
export const TEXT = { type: 'string', help: '' } as const satisfies Option;
export const TEXTS = { type: 'string', multiple: true, help: '' } as const satisfies Option;

/** Describes a command of this dialect. `words` are its positional arguments: how many at least and at most. */
export function bchCommand<const O extends Options>(spec: {
  usage: string;
  options: O;
  words: readonly [min: number, max: number];
  run(bch: Bch, values: Values<O>, words: string[]): Promise<void>;
}): BchCommand {
  return {
    async run(bch, argv) {
      const { values, words } = parseArguments(spec.options, argv);
      const [min, max] = spec.words;
      if (max === 0 && words[0] !== undefined) {
        throw new BadArguments(`Unexpected argument '${words[0]}'. This command does not take positional arguments`);
      }
      if (words.length < min || words.length > max) throw new BadArguments(`usage: bch ${spec.usage}`);
      await spec.run(bch, values as Values<O>, words);
    },
  };
}
