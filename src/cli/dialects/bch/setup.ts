import { BadArguments } from '../../arguments.ts';
import { bchCommand, FLAG } from './command.ts';
import { placeFor, setUp, takeDown } from './set-up.ts';

export default bchCommand({
  usage: 'setup',
  options: { 'no-hooks': FLAG, wake: FLAG, 'dry-run': FLAG, uninstall: FLAG },
  words: [0, 0],
  async run(bch, values) {
    const place = placeFor(bch.env, (line) => bch.say(line));
    const dry = values['dry-run'] ?? false;
    if (values.uninstall) {
      if (values.wake || values['no-hooks'])
        throw new BadArguments('--uninstall removes everything that was added; it takes only --dry-run beside it');
      return takeDown(place, dry);
    }
    setUp(place, { hooks: !values['no-hooks'], wake: values.wake ?? false, dry });
    if (!bch.identity)
      bch.say('\nno agent yet — run `bch init <name>` first, or set BACKCHANNEL_AGENT for your client');
  },
});
