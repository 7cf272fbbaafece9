import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';

export default command({
  usage: 'forget',
  about: 'To be written.',
  options: {},
  words: [0, Infinity],
  examples: [],
  async run() {
    throw new Refusal('not_in_this_version', 'forget is not written yet');
  },
});
