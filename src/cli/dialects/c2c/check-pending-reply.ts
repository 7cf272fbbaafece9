import { mayAnswer } from '../../../protocols/c2c/pending.ts';
import { c2cCommand, FLAG } from './command.ts';
import { supervisors } from './supervisors.ts';

export default c2cCommand({
  usage: 'check-pending-reply <id> <from> [--json]',
  options: { json: { ...FLAG, short: 'j' } },
  words: [2, 2],
  async run(c2c, values, [id = '', from = '']) {
    const checked = await mayAnswer(c2c.broker, id, from, supervisors(c2c.env, c2c.cwd));
    if (values.json) return c2c.sayJson(checked);
    c2c.say(checked.valid ? `${from} may answer ${id}` : `no: ${checked.error}`);
  },
});
