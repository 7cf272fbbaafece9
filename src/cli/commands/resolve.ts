import { shortId } from '../../protocol/names.ts';
import { resolve } from '../../flow/resolve.ts';
import { command } from '../command.ts';
import { eventFrom } from '../event.ts';

export default command({
  usage: 'resolve <id>',
  about:
    'Says that a message is dealt with: what you owe for it is ended, and what others owe you for it. If it opened an exchange, so is everything in it.',
  options: { note: { type: 'string', value: 'text', help: 'how, for the record' } },
  words: [1, 1],
  examples: ['parley resolve 1f2e3d4c --note "fixed in 4f2c1d"'],
  async run(context, values, [prefix = '']) {
    const { who, id } = await eventFrom(context, prefix);
    const resolved = await resolve(context.desk, who, id, values.note);
    if (context.json) return context.sayJson({ id, resolved });
    if (resolved.length === 0)
      return context.say(`nothing of yours was open in ${shortId(id)} that you can end; see \`parley owe\``);
    context.say(`resolved ${resolved.map(shortId).join(', ')}`);
  },
});
