import { command } from '../command.ts';
import { channelName } from '../context.ts';

export default command({
  usage: 'sub <#channel>',
  about: 'Subscribes you to a channel. The first subscriber makes it.',
  options: {},
  words: [1, 1],
  examples: ['parley sub "#backend"'],
  async run(context, _values, [text = '']) {
    const who = await context.who();
    const channel = channelName(text);
    await who.home.directory.subscribe(who.name, channel);
    if (context.json) return context.sayJson({ agent: who.name, channel, subscribed: true });
    context.say(`subscribed to ${channel}`);
  },
});
