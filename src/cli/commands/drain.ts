import { waiting } from '../../flow/deliver.ts';
import { command } from '../command.ts';
import { countFrom } from '../input.ts';
import { byCommand, rendered, takeAndPrint } from '../show.ts';

export default command({
  usage: 'drain',
  about:
    'Takes and prints everything that waits for you here: unscoped mail, and scoped mail that matches your context. ' +
    'What could not be printed still waits.',
  options: {
    match: { type: 'string', value: 'context', help: 'your context, for scoped mail' },
    loud: { type: 'boolean', help: 'leave out what waits quietly' },
    limit: { type: 'string', value: 'n', help: 'take at most this many' },
    keep: { type: 'boolean', help: 'keep the files in cur/' },
  },
  words: [0, 0],
  examples: ['parley drain', 'parley drain --match "$(git remote get-url origin)" --json'],
  async run(context, values) {
    const who = await context.who('read');
    const match = values.match ?? context.settings.match;
    const mail = await waiting(who, { match, loudOnly: values.loud ?? false });
    const wanted = mail.slice(0, countFrom(values.limit, mail.length || 1)).map(({ message }) => message);
    const render = (delivered: Parameters<typeof rendered>[1]): string => rendered(context, delivered, false);
    const taken = await takeAndPrint(who, wanted, byCommand('drain', who), render, values.keep);
    if (taken.length > 0) return;
    if (context.json) return context.sayJson([]);
    context.say('nothing waits for you here');
  },
});
