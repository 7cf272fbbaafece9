import { anyChannel, readName } from '../../../protocol/backchannel.ts';
import { readInvite } from '../../../protocol/invite.ts';
import { BadArguments } from '../../arguments.ts';
import { Bch } from './bch.ts';
import { secretFromStdin } from '../../token.ts';
import { bchCommand, FLAG, TEXT } from './command.ts';
import { enlistAt } from './enlist.ts';
import { setUp } from './setup.ts';

export default bchCommand({
  usage: 'join <invite> --as <name>',
  options: { as: TEXT, 'no-hooks': FLAG, wake: FLAG, insecure: FLAG },
  words: [1, 1],
  async run(bch, values, [text = '']) {
    const { url: given, token: roomToken, room, channels = [] } = readInvite(text === '-' ? secretFromStdin() : text);
    if (!values.as) throw new BadArguments('usage: bch join <invite> --as <name>');
    const name = readName(values.as);
    const { insecure = false } = values;
    const { url } = await enlistAt(bch, name, { url: given, room, roomToken, byInvite: true, insecure });
    bch.say(`joined ${url}${room ? ` (room ${room})` : ''} as "${name}" (personal token saved)`);
    // As whoever we are from now on, whatever the environment said before.
    const { BACKCHANNEL_URL: _url, BACKCHANNEL_TOKEN: _token, BACKCHANNEL_RELAY_ROOM: _room, ...rest } = bch.env;
    const joined = new Bch({ ...rest, BACKCHANNEL_AGENT: name });
    for (const channel of channels) {
      await joined.desk.home.directory.subscribe(name, anyChannel(channel));
      bch.say(`subscribed to ${channel}`);
    }
    const { 'no-hooks': noHooks = false, wake = false } = values;
    if (!noHooks || wake) setUp(bch, { hooks: !noHooks, wake, dry: false });
    bch.say(`\nready — try: bch send @<someone> "hello from ${name}"`);
  },
});
