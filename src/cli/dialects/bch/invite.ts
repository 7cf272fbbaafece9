import { anyChannel } from '../../../protocol/backchannel.ts';
import { writeInvite } from '../../../protocol/invite.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { relayAddress } from '../../../storage/relay/register.ts';
import type { Bch } from './bch.ts';
import { bchCommand, TEXT, TEXTS } from './command.ts';
import { tokenFrom } from '../../token.ts';
import { roomAt } from './elsewhere.ts';

export default bchCommand({
  usage: 'invite [--url <relay-url>] --token <room-token> [--channel <#name>]...',
  // `--token-file` is ours. `--token` gives no warning: what bch prints is the original's, on stderr too.
  options: { url: TEXT, token: TEXT, 'token-file': TEXT, channel: TEXTS, out: TEXT },
  words: [0, 0],
  async run(bch, values) {
    const { env, config } = bch;
    const given = values.url || env['BACKCHANNEL_URL'] || config.url;
    if (!given)
      throw new Refusal(
        'invalid_request',
        'there is no default relay — say which: bch invite --url <relay-url> --token <room-token>',
      );
    const token = tokenFrom(values, process.cwd());
    if (!token)
      throw new Refusal('invalid_request', '--token <room-token> required (an agent token admits nobody else)');
    // Nothing is sent from here: whoever joins decides about the address.
    const url = relayAddress(given, true);
    const channels = (values.channel ?? []).map(anyChannel);
    const invite = writeInvite({ url, token, room: roomAt(url, env, config), channels });
    printInvite(bch, 'invite created.', invite);
  },
});

/** The second line is what other programs look for. */
export function printInvite(bch: Bch, headline: string, invite: string): void {
  bch.say(
    [
      headline,
      '',
      `  bch join ${invite} --as their-name`,
      '',
      'Whoever has it can join, as often as they like: send it over a private way.',
    ].join('\n'),
  );
}
