import { readName } from '../../../protocol/backchannel.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { bchCommand, FLAG, TEXT } from './command.ts';
import { tokenFrom } from '../../token.ts';
import { becomeAgent } from './config.ts';
import { noBrain } from './elsewhere.ts';

export default bchCommand({
  usage: 'init <name>',
  options: {
    url: TEXT,
    token: TEXT,
    // Ours. `--token` gives no warning: what bch prints is the original's, on stderr too.
    'token-file': TEXT,
    insecure: FLAG,
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
    const name = readName(text);
    const url = values.url ?? bch.elsewhere?.url;
    if (url) {
      const { enlistAt } = await import('./enlist.ts');
      const roomToken = tokenFrom(values, process.cwd());
      const known = await enlistAt(bch, name, { url, roomToken, insecure: values.insecure ?? false });
      bch.say(`registered as "${name}" (${known.url})`);
      if (known.issued) bch.say('agent token issued and saved to config — the room token is no longer needed here');
      return;
    }
    if (values['token-file'] !== undefined)
      throw new Refusal(
        'invalid_request',
        `--token-file is for a relay — say which: bch init ${name} --url <relay-url>`,
      );
    if (values.token !== undefined)
      throw new Refusal('invalid_request', `--token is for a relay — say which: bch init ${name} --url <relay-url>`);
    const { home } = bch.desk;
    await bch.refusePerson(name, 'act');
    // Without an attention policy, as the original makes its agents: everything is shown.
    await home.directory.register(name, 'foreign');
    // Scripts write into a mailbox without asking us: it must be there.
    await home.spool.adopt(name);
    becomeAgent(bch.root, name);
    bch.say(`registered as "${name}" (local spool)`);
  },
});
