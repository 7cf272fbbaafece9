import { Refusal } from '../../../protocol/refusal.ts';
import { c2cCommand, FLAG } from './command.ts';
import { mustKnow } from './instance.ts';
import { bringDown } from './managed.ts';

/** `c2c stop <name>`: ends a session that we keep, with its loop. Its alias and its mail stay. spec: c2c#instances */
export default c2cCommand({
  usage: 'stop <name> [--json]',
  options: { json: { ...FLAG, short: 'j' } },
  words: [1, 1],
  async run(c2c, { json }, [text = '']) {
    const instance = mustKnow(c2c.env, text);
    if (c2c.env['C2C_INSTANCE_NAME'] === instance.name)
      throw new Refusal('invalid_request', 'that is this very session; stop it from a terminal outside of it');
    const status = (await bringDown(c2c.env, instance)) ? 'stopped' : 'not running';
    if (json) return c2c.sayJson({ ok: true, name: instance.name, status });
    c2c.say(`${instance.name}: ${status}`);
  },
});
