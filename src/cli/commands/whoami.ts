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
    if (context.json) return context.sayJson({ agent: who.name, home: who.home.label, root: who.home.root, from });
    context.say(`@${who.name} in ${who.home.root} (from ${from})`);
  },
});
