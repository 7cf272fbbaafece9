import { asOwed, claimedBy } from '../../flow/claimed.ts';
import { findMessage } from '../../flow/desk.ts';
import { findWaiting } from '../../flow/deliver.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { bringHere } from '../mine.ts';
import { byCommand, rendered, takeAndPrint } from '../show.ts';
import { whole } from '../words.ts';

export default command({
  usage: 'read <id>',
  about:
    'Shows one whole message. If it waits for you it is taken, whatever its scope; with --peek it is left. Old ones can be read again.',
  options: {
    peek: { type: 'boolean', help: 'leave it waiting' },
    keep: { type: 'boolean', help: 'keep the file in cur/' },
  },
  words: [1, 1],
  examples: ['parley read 1f2e3d4c'],
  async run(context, values, [prefix = '']) {
    const who = await context.who('read');
    const isWaiting = (await who.home.spool.ids(who.name)).some((id) => id.startsWith(prefix));
    if (isWaiting && !values.peek) {
      const id = await findWaiting(who, prefix);
      const render = (delivered: Parameters<typeof rendered>[1]): string => rendered(context, delivered, true);
      const taken = await takeAndPrint(who, [id], byCommand('read', who), render, values.keep);
      if (taken.length === 0) throw new Refusal('already_claimed', `message ${prefix} was claimed by another session`);
      return;
    }
    if (isWaiting) await bringHere(who, prefix);
    if (isWaiting) await who.home.spool.adopt(who.name);
    const { home, id } = await findMessage(context.desk, prefix);
    const message = await home.ledger.message(id);
    const copy = await home.ledger.copy(who.name, id);
    if (!message || (!copy && message.from !== who.name)) {
      throw new Refusal(
        'not_yours',
        `message ${prefix} is neither from you nor to you; \`parley trace ${prefix}\` says what became of it`,
      );
    }
    const attention = copy && asOwed(copy.attention, (await claimedBy({ ...who, home })).has(id));
    if (context.json) return context.sayJson({ ...message, attention: attention ?? undefined });
    context.say(whole({ message, attention: attention ?? undefined }, context.desk.now(), context.paint));
  },
});
