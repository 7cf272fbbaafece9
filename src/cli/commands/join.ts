import { readInvite } from '../../protocol/invite.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { agentName } from '../context.ts';
import { enlist, welcome } from '../enlist.ts';

export default command({
  usage: 'join <invite> --as <name>',
  about:
    'Accepts an invite to a room of a relay: registers you there under this name, keeps your own token in a file that only you can ' +
    'read, and subscribes you to the channels that the invite names. It changes no settings of a client, but says what to add.',
  options: {
    as: { type: 'string', value: 'name', help: 'your name there' },
    default: { type: 'boolean', help: 'be this agent from now on' },
    insecure: { type: 'boolean', help: 'accept an address without TLS on a network that you trust' },
  },
  words: [1, 1],
  examples: ['parley join bch1-eyJ1cmwiOi… --as codex-1'],
  async run(context, values, [text = '']) {
    const { url, token, room, channels } = readInvite(text);
    if (values.as === undefined) throw new Refusal('invalid_request', 'say who you are there: --as <name>');
    const agent = agentName(values.as);
    const { insecure = false, default: byDefault = false } = values;
    const done = await enlist(context, { agent, url, room, token, channels, insecure, byDefault });
    if (context.json) {
      return context.sayJson({
        agent,
        url: done.url,
        room,
        channels: channels ?? [],
        home: done.root,
        default: done.isDefault,
      });
    }
    context.say(`${context.paint.green('joined')} ${done.url}${room ? ` (room ${room})` : ''} as @${agent}`);
    for (const channel of channels ?? []) context.say(`subscribed to ${channel}`);
    welcome(context, agent, done);
    context.say(`For a client: \`parley install <client> --as ${agent}\` gives it this mailbox.`);
  },
});
