import { lineForModel } from '../../../delivery/gate.ts';
import { BadArguments } from '../../arguments.ts';
import { c2cCommand, FLAG, TEXT } from './command.ts';

export default c2cCommand({
  usage: 'dead-letter [--limit <n>] [--json]',
  options: { limit: { ...TEXT, short: 'l' }, json: { ...FLAG, short: 'j' } },
  words: [0, 0],
  async run(c2c, { limit = '50', json }) {
    if (!/^\d{1,6}$/.test(limit)) throw new BadArguments(`"${limit}" is no number of letters`);
    const letters = (await c2c.broker.deadLetters()).slice(-Number(limit));
    if (json) return c2c.sayJson(letters);
    if (letters.length === 0) return c2c.say('no dead letters');
    for (const { message } of letters) {
      const { from_alias: from = '?', to_alias: to = '?', content = '' } = (message ?? {}) as Record<string, unknown>;
      c2c.say(
        `${lineForModel(String(from), 64)} → ${lineForModel(String(to), 130)}  ${lineForModel(String(content), 120)}`,
      );
    }
  },
});
