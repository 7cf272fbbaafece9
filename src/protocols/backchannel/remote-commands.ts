import { setUp } from './setup.ts';
import { FLAG, TEXT, TEXTS, command } from '../../core/command.ts';
import { secretFromStdin, tokenFrom } from '../../platform/input.ts';
import { anyChannel, readName } from './names.ts';
import { readInvite, writeInvite } from './invite.ts';
import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { folderFor, readIdentity, writeIdentity } from './remote-identity.ts';
import { firstAbilities, makeRoom, registerAt, relayAddress } from './remote-register.ts';
import { Bch, becomeAgent, noBrain, relayInUse, roomAt, tokenAt } from './workspace.ts';

const initCommand = command({
  usage: 'init <name>',
  options: {
    url: TEXT,
    token: TEXT,
    // Ours. `--token` gives no warning: what bch prints is the original's, on stderr too.
    'token-file': TEXT,
    insecure: FLAG,
    brain: FLAG,
    'brain-token': TEXT,
    'brain-room': TEXT,
    'brain-url': TEXT,
  },
  words: [1, 1],
  async run(bch: Bch, values, [text = '']) {
    for (const option of ['brain', 'brain-token', 'brain-room', 'brain-url'] as const) {
      if (values[option] !== undefined) throw noBrain(`--${option} was given`);
    }
    const name = readName(text);
    const url = values.url ?? bch.relayPlace?.url;
    if (url) {
      const roomToken = tokenFrom(values, process.cwd());
      const known = await registerAtRelay(bch, name, { url, roomToken, insecure: values.insecure ?? false });
      bch.say(`registered as "${name}" (${known.url})`);
      if (known.issued) bch.say('agent token issued and saved to config — the room token is no longer needed here');
      return;
    }
    if (values['token-file'] !== undefined)
      throw new Refusal(
        'invalid_request',
        `--token-file is for a relay — say which: bch init ${name} --url <relay-url>`,
      );
    if (values.token !== undefined)
      throw new Refusal('invalid_request', `--token is for a relay — say which: bch init ${name} --url <relay-url>`);
    const { home } = bch.workspace;
    await bch.refusePerson(name, 'act');
    // Register without an attention policy, as the original does: every message is shown.
    await home.directory.register(name, 'foreign');
    // Scripts write into mailbox folders directly, so the folder must exist.
    await home.mailboxes.adopt(name);
    becomeAgent(bch.root, name);
    bch.say(`registered as "${name}" (local spool)`);
  },
});

const joinCommand = command({
  usage: 'join <invite> --as <name>',
  options: { as: TEXT, 'no-hooks': FLAG, wake: FLAG, insecure: FLAG },
  words: [1, 1],
  async run(bch: Bch, values, [text = '']) {
    const { url: given, token: roomToken, room, channels = [] } = readInvite(text === '-' ? secretFromStdin() : text);
    if (!values.as) throw new Refusal('invalid_request', 'usage: bch join <invite> --as <name>');
    const name = readName(values.as);
    const { insecure = false } = values;
    const { url } = await registerAtRelay(bch, name, { url: given, room, roomToken, byInvite: true, insecure });
    bch.say(`joined ${url}${room ? ` (room ${room})` : ''} as "${name}" (personal token saved)`);
    // Act as the agent that was just registered, whatever the environment names.
    const { BACKCHANNEL_URL: _url, BACKCHANNEL_TOKEN: _token, BACKCHANNEL_RELAY_ROOM: _room, ...rest } = bch.env;
    const joined = new Bch({ ...rest, BACKCHANNEL_AGENT: name });
    for (const channel of channels) {
      await joined.workspace.home.directory.subscribe(name, anyChannel(channel));
      bch.say(`subscribed to ${channel}`);
    }
    const { 'no-hooks': noHooks = false, wake = false } = values;
    if (!noHooks || wake) setUp(bch, { hooks: !noHooks, wake, dry: false });
    bch.say(`\nready — try: bch send @<someone> "hello from ${name}"`);
  },
});

const inviteCommand = command({
  usage: 'invite [--url <relay-url>] --token <room-token> [--channel <#name>]...',
  // `--token-file` is ours. `--token` gives no warning: what bch prints is the original's, on stderr too.
  options: { url: TEXT, token: TEXT, 'token-file': TEXT, channel: TEXTS, out: TEXT },
  async run(bch: Bch, values) {
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
    // This command sends nothing to the address: the agent that joins decides whether to trust it.
    const url = relayAddress(given, true);
    const channels = (values.channel ?? []).map(anyChannel);
    const invite = writeInvite({ url, token, room: roomAt(url, env, config), channels });
    printInvite(bch, 'invite created.', invite);
  },
});

/** Other programs search for the second line. */
function printInvite(bch: Bch, headline: string, invite: string): void {
  bch.say(
    [
      headline,
      '',
      `  bch join ${invite} --as their-name`,
      '',
      'Anyone who has it can join, any number of times: send it over a private channel.',
    ].join('\n'),
  );
}

const roomCommand = command({
  usage: 'room new [#channel]... [--url <relay-url>]',
  options: { url: TEXT, channel: TEXTS, insecure: FLAG },
  words: [1, Infinity],
  async run(bch: Bch, values, [verb, ...words]) {
    if (verb !== 'new') throw new Refusal('invalid_request', 'usage: bch room new [#channel]... [--url <relay-url>]');
    const { env, config } = bch;
    const given = values.url || env['BACKCHANNEL_URL'] || config.url || env['BACKCHANNEL_DEFAULT_RELAY'];
    if (!given)
      throw new Refusal('invalid_request', 'there is no default relay — say which: bch room new --url <relay-url>');
    // An address from the config or the environment was accepted before.
    const url = relayAddress(given, (values.insecure ?? false) || given !== values.url);
    const { room, token } = await makeRoom(url);
    const channels = [...words, ...(values.channel ?? [])].map(anyChannel);
    printInvite(bch, `room "${room}" created.`, writeInvite({ url, token, room, channels }));
  },
});

interface Admission {
  url: string;
  /** The room that an invite names. Without it, the room in use at that relay. */
  room?: string | undefined;
  roomToken?: string | undefined;
  /** An invite has only the room token: like the original, refuse an agent that is registered already. */
  byInvite?: boolean;
  insecure: boolean;
}

/** Registers an agent at a relay and makes it the current one. Keeps each agent's token in a file that only the user can read. */
async function registerAtRelay(
  bch: Bch,
  agent: AgentName,
  admission: Admission,
): Promise<{ url: string; issued: boolean }> {
  const { env, config, root } = bch;
  // An address in use was accepted before.
  const inUse = admission.url.replace(/\/+$/, '') === relayInUse(env, config)?.url && !admission.byInvite;
  const url = relayAddress(admission.url, admission.insecure || inUse);
  const room = admission.byInvite ? admission.room : roomAt(url, env, config);
  const place = { agent, url, ...(room && { room }) };
  keepCurrent(bch);
  const saved = readIdentity(folderFor(root, place));
  const own = admission.byInvite
    ? undefined
    : (tokenAt({ url, ...(room && { room }) }, agent, {}, config) ?? saved?.token);
  const given = admission.roomToken ?? (admission.byInvite ? undefined : env['BACKCHANNEL_TOKEN']);
  const { token, issued } = await registerAt(place, agent, { room: given, own });
  const abilities = await firstAbilities(place);
  writeIdentity(folderFor(root, place), { v: 1, ...place, ...(token && { token }), ...(abilities && { abilities }) });
  becomeAgent(root, agent, { url, ...(token && { token }), ...(room && { room }) });
  return { url, issued };
}

/** Keeps the token of the previous agent, which another program may have written, so that it can be current again. */
function keepCurrent({ root, config }: Bch): void {
  const { agent, url, token } = config;
  if (!agent || !url || !token || !URL.canParse(url)) return;
  const at = url.replace(/\/+$/, '');
  const room = roomAt(at, {}, config);
  const place = { agent: agent as AgentName, url: at, ...(room && { room }) };
  const folder = folderFor(root, place);
  const saved = readIdentity(folder);
  if (saved?.token !== token) writeIdentity(folder, { ...saved, v: 1, ...place, token });
}

export const commands = {
  init: initCommand,
  join: joinCommand,
  invite: inviteCommand,
  room: roomCommand,
};
