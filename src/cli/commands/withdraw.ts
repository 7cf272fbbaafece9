import { shortId } from '../../protocol/names.ts';
import { findMessage } from '../../flow/desk.ts';
import { withdraw } from '../../flow/settle.ts';
import { command } from '../command.ts';

export default command({
  usage: 'withdraw <id>',
  about: 'Takes back the copies of your message that nobody has taken yet, and says which were taken.',
  options: {},
  words: [1, 1],
  examples: ['parley withdraw 1f2e3d4c'],
  async run(context, _values, [prefix = '']) {
    const who = await context.who();
    const { home, id } = await findMessage(context.desk, prefix);
    const copies = await withdraw(who.name, home, id);
    const back = copies
      .filter((copy) => copy.state === 'stored' || (copy.state === 'held' && !copy.owner))
      .map((copy) => copy.mailbox);
    const taken = copies.filter((copy) => !back.includes(copy.mailbox)).map((copy) => copy.mailbox);
    if (context.json) return context.sayJson({ id, withdrawn: back, taken });
    if (back.length > 0) context.say(`withdrew ${shortId(id)} from ${back.map((name) => `@${name}`).join(', ')}`);
    if (copies.length === 0) context.say('nobody has a copy any more');
    if (taken.length > 0)
      context.say(`too late for ${taken.map((name) => `@${name}`).join(', ')}: already taken or settled`);
  },
});
