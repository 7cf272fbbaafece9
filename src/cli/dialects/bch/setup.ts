import type { Bch } from '../../../protocols/backchannel/workspace.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { command, FLAG } from '../../../core/command.ts';
import { placeFor, setUp, takeDown } from './set-up.ts';

export default command({
  usage: 'setup',
  options: { 'no-hooks': FLAG, wake: FLAG, 'dry-run': FLAG, uninstall: FLAG },
  words: [0, 0],
  async run(bch: Bch, values) {
    const place = placeFor(bch.env, (line) => bch.say(line));
    const dry = values['dry-run'] ?? false;
    if (values.uninstall) {
      if (values.wake || values['no-hooks'])
        throw new Refusal(
          'invalid_request',
          '--uninstall removes everything that was added; it takes only --dry-run beside it',
        );
      return takeDown(place, dry);
    }
    setUp(place, { hooks: !values['no-hooks'], wake: values.wake ?? false, dry });
    if (!bch.identity)
      bch.say('\nno agent yet — run `bch init <name>` first, or set BACKCHANNEL_AGENT for your client');
  },
});
