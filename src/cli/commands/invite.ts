import { writeInvite } from '../../protocol/invite.ts';
import { RoomId } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { channelName } from '../context.ts';
import { TOKEN_FILE, tokenFrom, tokenWarning } from '../token.ts';

export default command({
  usage: 'invite --token-file <path|->',
  about:
    "Prints an invite to a room of a relay. It needs the room's token: your own does not admit others. Nothing is sent anywhere.\n" +
    'The token comes from --token-file, from stdin (--token-file -) or from PARLEY_TOKEN.',
  options: {
    'token-file': { ...TOKEN_FILE, help: "the room's token, in a file or on stdin (-)" },
    token: { type: 'string', value: 'token', help: 'the same, seen by everybody in `ps`' },
    url: { type: 'string', value: 'url', help: 'the relay (default: where you are)' },
    room: { type: 'string', value: 'id', help: 'the room (default: where you are, else the default room)' },
    channel: { type: 'string', multiple: true, value: '#name', help: 'a channel that they will be subscribed to' },
  },
  words: [0, 0],
  examples: ['parley invite --token-file room-token --url https://relay.example.org --channel "#backend"'],
  async run(context, values) {
    const token = tokenFrom(values, context.cwd, context.env['PARLEY_TOKEN']);
    if (!token)
      throw new Refusal(
        'invalid_request',
        "give the room's token: --token-file <path> or PARLEY_TOKEN; an agent's own admits nobody else",
      );
    if (values.token !== undefined) context.note(`warning: ${tokenWarning('PARLEY_TOKEN')}`);
    const [home] = context.settings.agent === undefined ? [] : context.desk.homes;
    const { relayAddress } = await import('../../storage/relay/register.ts');
    const { readIdentity } = await import('../../storage/relay/identity.ts');
    const here = home?.far ? readIdentity(home.root) : null;
    const given = values.url ?? here?.url;
    if (!given)
      throw new Refusal('invalid_request', 'there is no default relay; say which: --url https://relay.example.org');
    const url = relayAddress(given, true);
    const room = values.room ?? (url === here?.url ? here.room : undefined);
    if (room !== undefined && !RoomId.safeParse(room).success)
      throw new Refusal('invalid_request', `"${room}" is no room id; use 1 to 64 letters, digits, _ -`);
    const channels = (values.channel ?? []).map(channelName);
    const invite = writeInvite({ url, token, room, channels });
    if (context.json) return context.sayJson({ url, room, channels, invite });
    context.say(joinLine(invite));
    context.note('anybody who has the invite can join, any number of times: send it in private');
  },
});

/** `echo` is part of the shell: the invite is in no process list. */
export function joinLine(invite: string): string {
  return `  echo ${invite} | parley join - --as their-name`;
}
