import { shortId } from '../../protocol/names.ts';
import { claim, unclaim } from '../../flow/claim.ts';
import { command } from '../command.ts';
import { eventFrom } from '../event.ts';
import { clockTime } from '../words.ts';

export default command({
  usage: 'claim <id>',
  about:
    'You answer for a message that several could answer, such as one to a role or a channel. Nobody else answers it while the claim ' +
    'stands: ten minutes, and longer while you work on it. It refuses with the name of whoever was first.',
  options: { release: { type: 'boolean', help: 'give it up, so that another can' } },
  words: [1, 1],
  examples: ['parley claim 1f2e3d4c', 'parley claim 1f2e3d4c --release'],
  async run(context, values, [prefix = '']) {
    const { who, id } = await eventFrom(context, prefix);
    if (values.release) {
      const released = await unclaim(context.desk, who, id);
      if (context.json) return context.sayJson({ id, released });
      return context.say(
        released ? `gave up ${shortId(id)}: another may claim it` : `${shortId(id)} was not claimed by you`,
      );
    }
    const { holder, until, key } = await claim(context.desk, who, id);
    if (context.json) return context.sayJson({ id, key, holder, until: new Date(until).toISOString() });
    context.say(`${context.paint.green('claimed')} ${shortId(id)} until ${clockTime(until)}`);
    context.note(`answer it: parley reply ${shortId(id)} "…"   give it up: parley claim ${shortId(id)} --release`);
  },
});
