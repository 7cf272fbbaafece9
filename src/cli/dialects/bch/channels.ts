import { lineForModel } from '../../../delivery/gate.ts';
import { bchCommand } from './command.ts';

export default bchCommand({
  usage: 'channels',
  options: {},
  words: [0, 0],
  async run(bch) {
    // Not `directory.channels()`: that one lists only names that Parley itself would allow.
    const records = await bch.desk.home.directory.list();
    const channels = [...new Set(records.flatMap((record) => record.subscriptions))].sort();
    if (channels.length === 0) return bch.say('no channels yet — `bch sub #general` to create one');
    bch.say(channels.map((channel) => lineForModel(channel)).join('\n'));
  },
});
