import { Refusal } from '../../../protocol/refusal.ts';
import { c2cCommand, FLAG, TEXT } from './command.ts';

/** `set-compact` while a client makes its context shorter, `clear-compact` after it: others see why nobody answers. */
export default c2cCommand({
  usage: 'set-compact [--reason <text>] [--json] | clear-compact [--json]',
  options: { reason: { ...TEXT, short: 'r' }, json: { ...FLAG, short: 'j' } },
  words: [0, 0],
  async run(c2c, { reason, json }, _words, called) {
    const begins = called === 'set-compact';
    const startedAt = Date.now() / 1000;
    const compacting = begins ? { started_at: startedAt, reason: reason ?? null } : undefined;
    if (!(await c2c.broker.amend(c2c.session(), () => ({ compacting })))) {
      throw new Refusal('no_identity', 'this session has no alias; run `c2c register <alias>` first');
    }
    if (json) return c2c.sayJson({ ok: true, ...(begins && { started_at: startedAt }) });
    c2c.say(begins ? 'noted: compacting' : 'noted: no longer compacting');
  },
});
