import { command } from '../command.ts';
import { channelName } from '../context.ts';

export default command({
  usage: 'unsub <#channel>',
  about: 'Ends your subscription to a channel.',
  options: {},
  words: [1, 1],
  examples: ['parley unsub "#backend"'],
  async run(context, _values, [text = '']) {
    const who = await context.who();
    const channel = channelName(text);
    await who.home.directory.unsubscribe(who.name, channel);
    if (context.json) return context.sayJson({ agent: who.name, channel, subscribed: false });
    context.say(`unsubscribed from ${channel}`);
  },
});
