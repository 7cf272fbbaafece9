import { dndOf, setDnd } from '../../../protocols/c2c/sessions.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { BadArguments } from '../../arguments.ts';
import { momentFrom } from '../../input.ts';
import { c2cCommand, FLAG, TEXT } from './command.ts';
import { isoOf } from './times.ts';

export default c2cCommand({
  usage: 'dnd [on|off|status] [--until 30m|2h|07:30|<time>] [--json]',
  options: { until: TEXT, json: { ...FLAG, short: 'j' } },
  words: [0, 1],
  async run(c2c, { until, json }, [word = 'status']) {
    if (!['on', 'off', 'status'].includes(word)) throw new BadArguments(`"${word}" is none of on, off and status`);
    const now = Date.now() / 1000;
    const known = await c2c.broker.session(c2c.session());
    if (!known) throw new Refusal('no_identity', 'this session has no alias; run `c2c register <alias>` first');
    const wish = { on: word === 'on', until: until === undefined ? undefined : endOf(until, now) };
    const told = word === 'status' ? dndOf(known.row, now) : await setDnd(c2c.broker, known.row.session_id, wish, now);
    if (json) return c2c.sayJson(word === 'status' ? told : { ok: true, ...told });
    const rest = told.dnd_until === undefined ? '' : ` until ${isoOf(told.dnd_until)}`;
    c2c.say(told.dnd ? `not to be disturbed${rest}` : 'may be disturbed');
  },
});

/** Seconds since 1970, as other programs give them, or a time to come as people write it. */
function endOf(text: string, now: number): number {
  return /^\d+(\.\d+)?$/.test(text) ? Number(text) : Date.parse(momentFrom(text, now * 1000)) / 1000;
}
