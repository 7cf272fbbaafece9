import { Refusal } from '../../../protocol/refusal.ts';
import type { C2c } from './c2c.ts';
import type { C2cCommand } from './command.ts';

/** What the OpenCode plugin asks of us; people do not call it. The file behind each is read only when it is called. */
const PARTS: Record<string, () => Promise<{ default: C2cCommand }>> = {
  'drain-inbox-to-spool': () => import('./oc-plugin-drain.ts'),
  'stream-write-statefile': () => import('./oc-plugin-state.ts'),
};

const ocPlugin: C2cCommand = {
  async run(c2c: C2c, argv: string[]) {
    const [name = '', ...rest] = argv;
    const usage = `usage: c2c oc-plugin ${Object.keys(PARTS).join('|')} …`;
    if (name === '--help' || name === '-h') return c2c.say(`${usage}\nMore: c2c help`);
    const load = Object.hasOwn(PARTS, name) ? PARTS[name] : undefined;
    if (!load) throw new Refusal('invalid_request', usage);
    await (await load()).default.run(c2c, rest, name);
  },
};

export default ocPlugin;
