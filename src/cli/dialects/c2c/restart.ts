import { Refusal } from '../../../protocol/refusal.ts';
import { c2cCommand, FLAG, TEXT } from './command.ts';
import { mustKnow } from './instance.ts';
import type { Instance } from './instance.ts';
import { bringDown, bringUp } from './managed.ts';
import type { Plan } from './managed.ts';

/** `c2c restart <name>`: the same client under the same alias and session id; its loop follows it. spec: c2c#instances */
export default c2cCommand({
  usage: 'restart <name> [--timeout <s>] [--json]',
  options: { json: { ...FLAG, short: 'j' }, timeout: TEXT },
  words: [1, 1],
  async run(c2c, { json, timeout = '5' }, [text = '']) {
    const patience = Number(timeout) * 1000;
    if (!(patience >= 0)) throw new Refusal('invalid_request', '--timeout takes a number of seconds');
    const before = mustKnow(c2c.env, text);
    await bringDown(c2c.env, before, patience);
    const { name, session_id, alias, pid, terminal } = await bringUp(c2c, planOf(before));
    if (json) return c2c.sayJson({ ok: true, name, session_id, alias, pid, terminal });
    c2c.say(`restarted ${name} as ${alias} (pid ${pid})`);
  },
});

/** What it was started with, without what ran of it. */
function planOf(instance: Instance): Plan {
  const {
    tmux: _tmux,
    holder: _holder,
    pid: _pid,
    pid_start: _start,
    terminal: _terminal,
    started_at: _at,
    ...plan
  } = instance;
  return plan;
}
