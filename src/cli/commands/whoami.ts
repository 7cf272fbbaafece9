import { command } from '../command.ts';

export default command({
  usage: 'whoami',
  about: 'Who you are here, where that comes from, and where your mail waits.',
  options: {},
  words: [0, 0],
  examples: ['parley whoami'],
  async run(context) {
    const who = await context.who();
    const from = context.loaded.origins.find((origin) => origin.name === 'agent')?.from ?? 'default';
    const { label, root, far } = who.home;
    if (context.json)
      return context.sayJson({ agent: who.name, home: label, root, from, ...(far && { url: far.url }) });
    context.say(`@${who.name} ${far ? `at ${far.url}` : `in ${root}`} (from ${from})`);
  },
});
