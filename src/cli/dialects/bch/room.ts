import { anyChannel } from '../../../protocol/backchannel.ts';
import { writeInvite } from '../../../protocol/invite.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { makeRoom, relayAddress } from '../../../storage/relay/register.ts';
import { BadArguments } from '../../arguments.ts';
import { bchCommand, FLAG, TEXT, TEXTS } from './command.ts';
import { printInvite } from './invite.ts';

export default bchCommand({
  usage: 'room new [#channel]... [--url <relay-url>]',
  options: { url: TEXT, channel: TEXTS, insecure: FLAG },
  words: [1, Infinity],
  async run(bch, values, [verb, ...words]) {
    if (verb !== 'new') throw new BadArguments('usage: bch room new [#channel]... [--url <relay-url>]');
    const { env, config } = bch;
    const given = values.url || env['BACKCHANNEL_URL'] || config.url || env['BACKCHANNEL_DEFAULT_RELAY'];
    if (!given)
      throw new Refusal('invalid_request', 'there is no default relay — say which: bch room new --url <relay-url>');
    // What stands in the config or the environment was accepted before.
    const url = relayAddress(given, (values.insecure ?? false) || given !== values.url);
    const { room, token } = await makeRoom(url);
    const channels = [...words, ...(values.channel ?? [])].map(anyChannel);
    printInvite(bch, `room "${room}" created.`, writeInvite({ url, token, room, channels }));
  },
});
