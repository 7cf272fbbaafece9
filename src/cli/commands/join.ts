import { readInvite } from '../../protocol/invite.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { agentName } from '../context.ts';
import { enlist, welcome } from '../enlist.ts';
import { secretFromStdin } from '../token.ts';

export default command({
  usage: 'join - --as <name>  (the invite is read from stdin)',
  about:
    'Accepts an invite to a room of a relay: registers you there under this name, keeps your own token in a file that only you can ' +
    'read, and subscribes you to the channels that the invite names. It changes no settings of a client, but says what to add.\n' +
    'An invite holds a token. As a word on the command line it works too, and everybody on this machine can see it in `ps`.',
  options: {
    as: { type: 'string', value: 'name', help: 'your name there' },
    default: { type: 'boolean', help: 'be this agent from now on' },
    insecure: { type: 'boolean', help: 'accept an address without TLS on a network that you trust' },
  },
  words: [1, 1],
  examples: ['echo bch1-eyJ1cmwiOi… | parley join - --as codex-1', 'parley join - --as codex-1 < invite'],
  async run(context, values, [text = '']) {
    if (values.as === undefined) throw new Refusal('invalid_request', 'say who you are there: --as <name>');
    const agent = agentName(values.as);
    const { url, token, room, channels } = readInvite(text === '-' ? secretFromStdin() : text);
    if (text !== '-' && token !== undefined)
      context.note(
        `warning: other accounts of this machine can see an invite in the process list; use: echo <invite> | parley join - --as ${agent}`,
      );
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
