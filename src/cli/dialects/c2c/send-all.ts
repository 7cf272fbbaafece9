import { sendToAll } from '../../../protocols/c2c/mail.ts';
import { bodyFrom } from '../../input.ts';
import { c2cCommand, FLAG, TEXT, TEXTS } from './command.ts';

/** One message by name to everybody who may be there. Who is known to be gone is left out: nobody named them. */
export default c2cCommand({
  usage: 'send-all <text …|-> [--exclude <alias,…>] [--from <alias>] [--json]',
  options: {
    from: { ...TEXT, short: 'F' },
    exclude: { ...TEXTS, short: 'x' },
    json: { ...FLAG, short: 'j' },
    'no-warn-substitution': FLAG,
  },
  words: [1, Infinity],
  async run(c2c, values, words) {
    const from = await c2c.writer(values.from);
    const body = await bodyFrom(words, c2c.desk.bodyLimit);
    const result = await sendToAll(
      c2c,
      from,
      body,
      (values.exclude ?? []).flatMap((list) => list.split(',')),
    );
    if (values.json) return c2c.sayJson(result);
    const skipped = result.skipped.map(({ alias, reason }) => `${alias} (${reason})`);
    c2c.say(
      `stored for ${result.sent_to.length > 0 ? result.sent_to.join(', ') : 'nobody'}${skipped.length > 0 ? `; left out: ${skipped.join(', ')}` : ''}`,
    );
  },
});
