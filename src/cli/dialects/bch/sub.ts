import { Refusal } from '../../../protocol/refusal.ts';
import { anyChannel } from '../../../protocol/backchannel.ts';
import { bchCommand } from './command.ts';

export default bchCommand({
  usage: 'sub <#channel>',
  options: {},
  words: [1, 1],
  async run(bch, _values, [channel = '']) {
    const { name, home } = await bch.who();
    if (!(await home.directory.get(name))) {
      throw new Refusal('no_identity', `unknown agent "${name}" — run \`bch init ${name}\` first`);
    }
    await home.directory.subscribe(name, anyChannel(channel));
    bch.say(`subscribed to ${channel}`);
  },
});
