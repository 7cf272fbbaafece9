import { writeInvite } from '../../protocol/invite.ts';
import { RoomId } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { channelName } from '../context.ts';

export default command({
  usage: 'invite --token <room token>',
  about:
    "Prints an invite to a room of a relay. It needs the room's token: your own does not admit others. Nothing is sent anywhere.",
  options: {
    token: { type: 'string', value: 'token', help: "the room's token" },
    url: { type: 'string', value: 'url', help: 'the relay (default: where you are)' },
    room: { type: 'string', value: 'id', help: 'the room (default: where you are, else the default room)' },
    channel: { type: 'string', multiple: true, value: '#name', help: 'a channel that they will be subscribed to' },
  },
  words: [0, 0],
  examples: ['parley invite --token "$ROOM_TOKEN" --url https://relay.example.org --channel "#backend"'],
  async run(context, values) {
    if (!values.token)
      throw new Refusal(
        'invalid_request',
        "give the room's token: --token <room token>; an agent's own admits nobody else",
      );
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
    const invite = writeInvite({ url, token: values.token, room, channels });
    if (context.json) return context.sayJson({ url, room, channels, invite });
    context.say(`  parley join ${invite} --as their-name`);
    context.note('whoever has the invite can join, as often as they like: send it over a private way');
  },
});
