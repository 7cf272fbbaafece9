import { openQuestion, QUESTION_S } from '../../../protocols/c2c/pending.ts';
import { namesIn } from '../../../protocols/c2c/sessions.ts';
import { c2cCommand, FLAG, TEXT } from './command.ts';

export default c2cCommand({
  usage: 'open-pending-reply <id> --kind permission|question --supervisors <alias,…> [--json]',
  options: { kind: { ...TEXT, short: 'k' }, supervisors: { ...TEXT, short: 's' }, json: { ...FLAG, short: 'j' } },
  words: [1, 1],
  async run(c2c, values, [id = '']) {
    const ttl = Number(c2c.env['C2C_PERMISSION_TTL'] || QUESTION_S);
    const opened = await openQuestion(
      c2c.broker,
      c2c.session(),
      {
        id,
        kind: values.kind ?? 'permission',
        supervisors: namesIn(values.supervisors),
        ttl: Number.isFinite(ttl) && ttl > 0 ? ttl : QUESTION_S,
      },
      Date.now(),
    );
    if (values.json) return c2c.sayJson(opened);
    c2c.say(`${opened.perm_id} is open for ${opened.ttl_seconds} s`);
  },
});
