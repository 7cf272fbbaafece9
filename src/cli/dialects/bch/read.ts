import { findWaiting } from '../../../flow/deliver.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { byCommand, takeAndPrint } from '../../show.ts';
import { bchCommand, FLAG } from './command.ts';
import { full } from './format.ts';

export default bchCommand({
  usage: 'read <id> [--keep]',
  options: { keep: FLAG },
  words: [1, 1],
  async run(bch, values, [prefix = '']) {
    const who = await bch.reader();
    const id = await findWaiting(who, prefix).catch((error: unknown) => {
      if (!(error instanceof Refusal && ['not_found', 'already_claimed'].includes(error.code))) throw error;
      throw new Refusal('not_found', `no unread message with id ${prefix}`);
    });
    const taken = await takeAndPrint(
      who,
      [id],
      byCommand('bch read', who),
      (delivered) => delivered.map(({ message }) => `${full(message)}\n`).join(''),
      values.keep,
    );
    if (taken.length === 0) throw new Refusal('already_claimed', `message ${prefix} was claimed by another session`);
  },
});
