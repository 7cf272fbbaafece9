import { Refusal } from '../../protocol/refusal.ts';

/** A name that the binary answers to and a dialect that it does not speak yet. */
export function sayLater(name: string): never {
  throw new Refusal(
    'not_in_this_version',
    `${name} is not in this version yet; use \`parley\` or \`bch\` (see \`parley help\`)`,
  );
}
