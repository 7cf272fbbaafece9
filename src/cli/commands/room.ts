import { writeInvite } from '../../protocol/invite.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { channelName } from '../context.ts';
import { joinLine } from './invite.ts';

export default command({
  usage: 'room new [#channel …]',
  about:
    'Makes a room on a relay, closed to everybody who has no invite, and prints an invite to it. There is no default relay: ' +
    'give its address, or act as an agent that is at one already.',
  options: {
    url: { type: 'string', value: 'url', help: 'the relay' },
    insecure: { type: 'boolean', help: 'accept an address without TLS on a network that you trust' },
  },
  words: [1, Infinity],
  examples: [
    'parley room new --url https://relay.example.org',
    'parley room new "#backend" "#ops" --url https://relay.example.org',
  ],
  async run(context, values, [verb, ...names]) {
    if (verb !== 'new') throw new Refusal('invalid_request', 'usage: parley room new [#channel …] [--url <relay>]');
    const channels = names.map(channelName);
    const given = values.url ?? (context.settings.agent && context.desk.homes[0]?.far?.url);
    if (!given)
      throw new Refusal('invalid_request', 'there is no default relay; say which: --url https://relay.example.org');
    const { makeRoom, relayAddress } = await import('../../storage/relay/register.ts');
    const url = relayAddress(given, (values.insecure ?? false) || values.url === undefined);
    const { room, token } = await makeRoom(url);
    const invite = writeInvite({ url, token, room, channels });
    if (context.json) return context.sayJson({ url, room, token, channels, invite });
    context.say(`${context.paint.green(`room "${room}" made`)} at ${url}`);
    context.say(joinLine(invite));
    context.say(`room token: ${token}   (keep it: \`parley invite --token-file\` needs it)`);
    context.note('anybody who has the invite can join, any number of times: send it in private');
  },
});
