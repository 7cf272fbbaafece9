import { lineForModel } from '../../../delivery/gate.ts';
import { bchCommand } from './command.ts';

export default bchCommand({
  usage: 'agents',
  options: {},
  words: [0, 0],
  async run(bch) {
    for (const { name, subscriptions, lastSeen } of await bch.desk.home.directory.list()) {
      const channels = subscriptions.length > 0 ? ` (${subscriptions.map((one) => lineForModel(one)).join(', ')})` : '';
      bch.say(`${name}${channels} — last seen ${lineForModel(lastSeen)}`);
    }
  },
});
