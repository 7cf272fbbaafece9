import { readName } from './address.ts';
import { bchCommand, FLAG, TEXT } from './command.ts';
import { becomeAgent } from './config.ts';
import { noBrain, noRelay } from './elsewhere.ts';

export default bchCommand({
  usage: 'init <name>',
  options: {
    url: TEXT,
    token: TEXT,
    brain: FLAG,
    'brain-token': TEXT,
    'brain-room': TEXT,
    'brain-url': TEXT,
  },
  words: [1, 1],
  async run(bch, values, [text = '']) {
    for (const option of ['brain', 'brain-token', 'brain-room', 'brain-url'] as const) {
      if (values[option] !== undefined) throw noBrain(`--${option} was given`);
    }
    for (const option of ['url', 'token'] as const) {
      if (values[option] !== undefined) throw noRelay(`--${option} was given`, 'leave it out');
    }
    const name = readName(text);
    const { home } = bch.desk;
    // Without an attention policy, as the original makes its agents: everything is shown.
    await home.directory.register(name, 'foreign');
    // Scripts write into a mailbox without asking us: it must be there.
    await home.spool.adopt(name);
    becomeAgent(bch.root, name);
    bch.say(`registered as "${name}" (local spool)`);
  },
});
