import { command } from '../command.ts';

export default command({
  usage: 'channels',
  about: 'Every channel that somebody subscribes to.',
  options: {},
  words: [0, 0],
  examples: ['parley channels'],
  async run(context) {
    const rows = [];
    for (const home of context.desk.homes) {
      for (const channel of await home.directory.channels()) {
        rows.push({
          channel,
          home: home.label,
          subscribers: (await home.directory.subscribers(channel)).map(({ name }) => name),
        });
      }
    }
    if (context.json) return context.sayJson(rows);
    if (rows.length === 0) return context.say('no channels yet; `parley sub "#general"` makes one');
    for (const { channel, home, subscribers } of rows) {
      context.say(
        `${context.paint.bold(channel)}${home === 'parley' ? '' : `%${home}`}  ${subscribers.map((name) => `@${name}`).join(', ')}`,
      );
    }
  },
});
