import { VERSION } from '../../program.ts';
import { c2cCommand, FLAG } from './command.ts';

export default c2cCommand({
  usage: 'version [--json]',
  options: { json: { ...FLAG, short: 'j' } },
  words: [0, 0],
  async run(c2c, { json }) {
    if (json) return c2c.sayJson({ program: 'parley', version: VERSION });
    c2c.say(`c2c, spoken by parley ${VERSION}`);
  },
});
