import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import type { OpenDoor } from '../doors.ts';
import { RELAY_OPTIONS } from '../relay/options.ts';

export default command({
  usage: 'relay  |  relay token <list|issue|rotate|revoke> [agent]',
  about:
    'Serves the rooms of your Backchannel home over HTTP, until Ctrl-C: agents on other machines register there and exchange mail.\n' +
    'It listens on this machine only, unless you say --host or let a proxy offer it (--public); then a room token is required.\n' +
    'BACKCHANNEL_TOKEN is the room token of the default room, BACKCHANNEL_ADMIN_TOKEN who may make rooms and see /metrics.\n' +
    'relay token lists who has a token, and issues, replaces or takes one away; the relay may run meanwhile.',
  options: {
    ...RELAY_OPTIONS,
    room: { type: 'string', value: 'id', help: 'relay token: in this room (default: the default room)' },
  },
  words: [0, 3],
  examples: [
    'parley relay',
    'BACKCHANNEL_TOKEN=$(openssl rand -hex 16) parley relay --host 0.0.0.0 --tls-cert chain.pem --tls-key key.pem',
    'parley relay --public https://relay.example.org',
    'parley relay token list',
    'parley relay token issue codex --room Zk3vQ8aW',
    'parley up --with relay --detach',
  ],
  async run(context, values, words) {
    const [word, ...rest] = words;
    if (word === 'token') return (await import('../relay-token.ts')).relayToken(context, rest, values);
    if (word !== undefined)
      throw new Refusal(
        'invalid_request',
        'usage: parley relay, or parley relay token <list|issue|rotate|revoke> [agent]',
      );
    if (values.room !== undefined)
      throw new Refusal(
        'invalid_request',
        '--room belongs to `parley relay token`; a relay serves all rooms of its home',
      );
    const { servingLog } = await import('../serving-log.ts');
    const { serveUntilSignal, tellWarnings } = await import('../serving.ts');
    const log = servingLog({ json: values['json-logs'] ?? false, verbose: context.verbose });
    const { default: relay } = await import('../relay/door.ts');
    const open = async (): Promise<OpenDoor[]> => {
      const door = await relay.open(context, values, log);
      tellWarnings(door, values['json-logs'] ? log : null);
      if (context.json) context.sayJson({ url: door.address, pid: process.pid, about: door.about });
      else context.say([`relay listening on ${door.address}`, ...door.about.map((line) => `  ${line}`)].join('\n'));
      return [door];
    };
    await serveUntilSignal(open, log, () => {});
  },
});
