import { existsSync } from 'node:fs';
import { anyChannel, readName } from '../../../protocol/backchannel.ts';
import { readInvite } from '../../../protocol/invite.ts';
import type { Env } from '../../settings.ts';
import { BadArguments } from '../../arguments.ts';
import { Bch } from './bch.ts';
import { bchCommand, FLAG, TEXT } from './command.ts';
import { enlistAt } from './enlist.ts';

export default bchCommand({
  usage: 'join <invite> --as <name>',
  options: { as: TEXT, 'no-hooks': FLAG, wake: FLAG, insecure: FLAG },
  words: [1, 1],
  async run(bch, values, [text = '']) {
    const { url: given, token: roomToken, room, channels = [] } = readInvite(text);
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
    for (const line of additions(bch.env, values)) bch.say(line);
    bch.say(`\nready — try: bch send @<someone> "hello from ${name}"`);
  },
});

const HOOK = `bch drain --hook --match "$(git remote get-url origin 2>/dev/null || pwd)"`;
const WAKE = `bch watch --urgent-only --peek --exec 'notify-send "{{from}}" "{{body}}"'`;

/** What could be added to the clients that are here. We change no client's settings without being asked. */
function additions(env: Env, { 'no-hooks': noHooks, wake }: { 'no-hooks'?: boolean; wake?: boolean }): string[] {
  const home = env['BACKCHANNEL_SETUP_HOME'] || env['HOME'] || '';
  const here = (folder: string): boolean => existsSync(`${home}/${folder}`);
  const hook = JSON.stringify({ hooks: [{ type: 'command', command: HOOK }] });
  const lines = [
    ...(here('.claude') && !noHooks
      ? [`[claude-code] not changed; add to hooks.UserPromptSubmit in ~/.claude/settings.json: ${hook}`]
      : []),
    ...['claude-code', 'codex', 'gemini-cli']
      .filter((_name, at) => here(['.claude', '.codex', '.gemini'][at] ?? ''))
      .map(
        (name) =>
          `[${name}] not changed; add the MCP server \`bch mcp\` to its settings under the key "backchannel"`,
      ),
  ];
  return [
    ...(lines.length > 0 ? lines : ['[none] no known harness detected — let your agent run `bch drain`']),
    ...(wake ? [`[wake] not installed; run this to be told of urgent mail: ${WAKE}`] : []),
  ];
}
