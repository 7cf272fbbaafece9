import { shortId } from '../../protocol/names.ts';
import { onlyOne } from '../../flow/desk.ts';
import { release } from '../../flow/settle.ts';
import { command } from '../command.ts';
import { durationFrom } from '../input.ts';
import { openId } from '../mine.ts';
import { byCommand } from '../show.ts';

export default command({
  usage: 'release <id>',
  about:
    'Gives back a message that you hold by `take --lease`, or that a hook has just shown you: it waits again, at once or after a ' +
    'while, and is then marked as redelivered.',
  options: { after: { type: 'string', value: 'span', help: 'not before this has passed: 30s, 10m, 2h' } },
  words: [1, 1],
  examples: ['parley release 1f2e3d4c', 'parley release 1f2e3d4c --after 10m'],
  async run(context, values, [prefix = '']) {
    const who = await context.who('read');
    const { id } = onlyOne(prefix, await openId(who, prefix));
    const delay = values.after === undefined ? undefined : durationFrom(values.after);
    await release(who, id, byCommand('release', who), delay);
    if (context.json) return context.sayJson({ id, step: 'stored', afterMs: delay ?? 0 });
    context.say(`released ${shortId(id)}${values.after ? `; it waits again in ${values.after}` : ''}`);
  },
});
