import { existsSync } from 'node:fs';
import { examineWays } from '../../doctor/ways.ts';
import { c2cCommand, FLAG } from './command.ts';

/** Which way each session gets its mail, and why. `parley doctor` looks at everything else. spec: c2c#ways */
export default c2cCommand({
  usage: 'doctor [--json]',
  options: { json: { ...FLAG, short: 'j' } },
  words: [0, 0],
  async run(c2c, values) {
    const rows = existsSync(c2c.root) ? await c2c.broker.sessions() : [];
    const findings = await examineWays(c2c.env, c2c.cwd, rows);
    if (values.json) return c2c.sayJson({ broker_root: c2c.root, findings });
    c2c.say(`broker ${c2c.root}${existsSync(c2c.root) ? '' : ' (not there yet)'}`);
    if (findings.length === 0) c2c.say('no client that c2c knows is here, and no session is registered');
    for (const { about, what, next } of findings) c2c.say(`${about}: ${what}${next ? ` → ${next}` : ''}`);
  },
});
