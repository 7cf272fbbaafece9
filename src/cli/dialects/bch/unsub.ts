import { anyChannel } from '../../../protocol/backchannel.ts';
import { bchCommand } from './command.ts';

export default bchCommand({
  usage: 'unsub <#channel>',
  options: {},
  words: [1, 1],
  async run(bch, _values, [channel = '']) {
    const { name, home } = await bch.who();
    // Who is not here has nothing to leave.
    if (await home.directory.get(name)) await home.directory.unsubscribe(name, anyChannel(channel));
    bch.say(`unsubscribed from ${channel}`);
  },
});
