import { lineForModel } from '../../../delivery/gate.ts';
import { sessionJson } from '../../../protocols/c2c/sessions.ts';
import { ago } from '../../words.ts';
import { c2cCommand, FLAG } from './command.ts';
import { isoOf } from './times.ts';

export default c2cCommand({
  usage: 'list [--alive] [--json]',
  // Everybody is listed in any case; `--all` is what others call it.
  options: { all: { ...FLAG, short: 'a' }, alive: FLAG, json: { ...FLAG, short: 'j' } },
  words: [0, 0],
  async run(c2c, values) {
    const sessions = (await c2c.broker.sessions()).filter(({ alive }) => !values.alive || alive !== false);
    if (values.json) return c2c.sayJson(sessions.map(sessionJson));
    if (sessions.length === 0) return c2c.say('nobody is registered here; be the first: `c2c register <alias>`');
    for (const { row, alive, lastSeen } of sessions) {
      const state = alive === null ? 'unknown' : alive ? 'alive' : 'gone';
      const seen = lastSeen > 0 ? `seen ${ago(isoOf(lastSeen), Date.now())}` : 'never seen';
      c2c.say(
        `${row.alias.padEnd(24)} ${state.padEnd(8)} ${seen}  ${lineForModel(row.client_type ?? '', 20)}`.trimEnd(),
      );
    }
  },
});
