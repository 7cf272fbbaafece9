import { openRemoteHome } from '../../protocols/backchannel/homes.ts';
import { readdirSync } from 'node:fs';
import { command } from '../../core/command.ts';
import { ago } from '../../core/time.ts';
import { lineForModel } from '../../core/gate.ts';
import { parleyHome } from '../../platform/env.ts';
import { TOKEN_FILE, secretFromStdin, tokenFrom, tokenWarning } from '../../platform/input.ts';
import { anyChannel } from '../../protocols/backchannel/names.ts';
import { readInvite, writeInvite } from '../../protocols/backchannel/invite.ts';
import { RoomId, shortId } from '../../core/names.ts';
import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { folderFor, readIdentity, writeIdentity } from '../../protocols/backchannel/remote-identity.ts';
import type { OutgoingMessage, Remote, OutboxRow } from '../../core/ports/remote.ts';
import { firstAbilities, makeRoom, registerAt, relayAddress } from '../../protocols/backchannel/remote-register.ts';
import { agentName, channelName } from '../context.ts';
import type { Context } from '../context.ts';
import { prepareHook } from '../hook-setup.ts';
import { relayMailboxes } from '../relay-mailboxes.ts';
import { becomeDefault } from '../settings-file.ts';
import { gist } from '../words.ts';

const joinCommand = command({
  usage: 'join - --as <name>  (the invite is read from stdin)',
  about:
    'Joins a room of a relay with an invite: registers you under this name, keeps your token in a file that only you can read, and ' +
    'subscribes you to the channels of the invite. It changes no client settings.\n' +
    'An invite holds a token, so give it on stdin: on the command line other users of this machine can see it in `ps`.',
  options: {
    as: { type: 'string', value: 'name', help: 'your name in that room' },
    default: { type: 'boolean', help: 'make it your default' },
    insecure: { type: 'boolean', help: 'accept an address without TLS on a network that you trust' },
  },
  words: [1, 1],
  examples: ['echo bch1-eyJ1cmwiOi… | parley join - --as codex-1', 'parley join - --as codex-1 < invite'],
  async run(context: Context, values, [text = '']) {
    if (values.as === undefined) throw new Refusal('invalid_request', 'give your name in the room: --as <name>');
    const agent = agentName(values.as);
    const { url, token, room, channels } = readInvite(text === '-' ? secretFromStdin() : text);
    if (text !== '-' && token !== undefined)
      context.note(
        `warning: other accounts of this machine can see an invite in the process list; use: echo <invite> | parley join - --as ${agent}`,
      );
    const { insecure = false, default: byDefault = false } = values;
    const done = await joinRelay(context, { agent, url, room, token, channels, insecure, byDefault });
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

const inviteCommand = command({
  usage: 'invite --token-file <path|->',
  about:
    "Prints an invite to a room of a relay. It needs the room's token; your own token admits nobody else. Nothing is sent.\n" +
    'The token comes from --token-file, from stdin (--token-file -) or from PARLEY_TOKEN.',
  options: {
    'token-file': { ...TOKEN_FILE, help: "the room's token, in a file or on stdin (-)" },
    token: { type: 'string', value: 'token', help: 'the same; other users can see it in `ps`' },
    url: { type: 'string', value: 'url', help: 'the relay (default: yours)' },
    room: { type: 'string', value: 'id', help: 'the room (default: yours, else the default room)' },
    channel: { type: 'string', multiple: true, value: '#name', help: 'a channel that the invited agent subscribes to' },
  },
  examples: ['parley invite --token-file room-token --url https://relay.example.org --channel "#backend"'],
  async run(context: Context, values) {
    const token = tokenFrom(values, context.cwd, context.env['PARLEY_TOKEN']);
    if (!token)
      throw new Refusal(
        'invalid_request',
        "give the room's token: --token-file <path> or PARLEY_TOKEN; the token of an agent admits nobody else",
      );
    if (values.token !== undefined) context.note(`warning: ${tokenWarning('PARLEY_TOKEN')}`);
    const [home] = context.settings.agent === undefined ? [] : context.workspace.homes;
    const here = home?.remote ? readIdentity(home.root) : null;
    const given = values.url ?? here?.url;
    if (!given) throw new Refusal('invalid_request', 'name the relay: --url https://relay.example.org');
    const url = relayAddress(given, true);
    const room = values.room ?? (url === here?.url ? here.room : undefined);
    if (room !== undefined && !RoomId.safeParse(room).success)
      throw new Refusal('invalid_request', `"${room}" is not a room id; use 1 to 64 letters, digits, _ -`);
    const channels = (values.channel ?? []).map(channelName);
    const invite = writeInvite({ url, token, room, channels });
    if (context.json) return context.sayJson({ url, room, channels, invite });
    context.say(joinLine(invite));
    context.note('anyone with this invite can join, any number of times: send it in private');
  },
});

/** `echo` is part of the shell: the invite is in no process list. */
function joinLine(invite: string): string {
  return `  echo ${invite} | parley join - --as their-name`;
}

const roomCommand = command({
  usage: 'room new [#channel …]',
  about:
    'Makes a room on a relay and prints an invite to it. Only agents with an invite can join. Without --url it uses the relay of ' +
    'the agent that you act as.',
  options: {
    url: { type: 'string', value: 'url', help: 'the relay' },
    insecure: { type: 'boolean', help: 'accept an address without TLS on a network that you trust' },
  },
  words: [1, Infinity],
  examples: [
    'parley room new --url https://relay.example.org',
    'parley room new "#backend" "#ops" --url https://relay.example.org',
  ],
  async run(context: Context, values, [verb, ...names]) {
    if (verb !== 'new') throw new Refusal('invalid_request', 'usage: parley room new [#channel …] [--url <relay>]');
    const channels = names.map(channelName);
    const given = values.url ?? (context.settings.agent && context.workspace.homes[0]?.remote?.url);
    if (!given) throw new Refusal('invalid_request', 'name the relay: --url https://relay.example.org');
    const url = relayAddress(given, (values.insecure ?? false) || values.url === undefined);
    const { room, token } = await makeRoom(url);
    const invite = writeInvite({ url, token, room, channels });
    if (context.json) return context.sayJson({ url, room, token, channels, invite });
    context.say(`${context.paint.green(`room "${room}" made`)} at ${url}`);
    context.say(joinLine(invite));
    context.say(`room token: ${token}   (keep it: \`parley invite --token-file\` needs it)`);
    context.note('anyone with this invite can join, any number of times: send it in private');
  },
});

const outboxCommand = command({
  usage: 'outbox [send|retry|drop] [id|key]',
  about:
    'Lists what you sent to a relay and is not known to have arrived.\n' +
    '`send` sends it now. By itself it is sent by your next command that reaches the relay, and by `parley up --with outbox`.\n' +
    'queued: it never left this machine. unknown: it may have arrived; it is sent again only to a relay that knows keys.\n' +
    'Otherwise ask the reader, then `retry` it or `drop` it.',
  words: [0, 2],
  examples: ['parley outbox', 'parley outbox send', 'parley outbox retry 1f2e3d4c', 'parley outbox drop 1f2e3d4c'],
  async run(context: Context, _values, [verb, key]) {
    if (verb === undefined && context.settings.agent && !context.workspace.homes[0]?.remote) {
      if (context.json) return context.sayJson([]);
      return context.say(atNoRelay(context));
    }
    const remote = await remoteOf(context);
    if (verb === undefined) return list(context, await remote.outbox());
    if (verb === 'send' && key === undefined) return sendAll(context, remote);
    if ((verb !== 'retry' && verb !== 'drop') || key === undefined)
      throw new Refusal('invalid_request', 'usage: parley outbox [send | retry <id|key> | drop <id|key>]');
    if (verb === 'drop') {
      await remote.drop(key);
      return context.json ? context.sayJson({ dropped: key }) : context.say(`dropped ${key}`);
    }
    const { message } = await remote.retry(key);
    const { id, to, ts } = message;
    const queuedAs = await remote.queuedAs(id);
    if (context.json) return context.sayJson({ id, to, ts, step: 'stored', queuedAs });
    const before = queuedAs ? `, queued here as ${shortId(queuedAs)}` : '';
    context.say(
      `${context.paint.green('stored')} ${shortId(id)} at ${remote.url} for ${lineForModel(to, 80)}${before}`,
    );
  },
});

/** Sends what waits, and says what stayed. */
async function sendAll(context: Context, remote: Remote): Promise<void> {
  const before = (await remote.outbox()).length;
  const trouble = await remote.sendOutbox();
  if (trouble) throw trouble;
  const left = await remote.outbox();
  const sent = before - left.length;
  if (context.json) return context.sayJson({ sent, left: left.length });
  context.say(
    before === 0 ? 'outbox empty' : `${context.paint.green(`sent ${sent}`)} to ${remote.url}, ${left.length} left`,
  );
  if (left.length > 0) context.note('see `parley outbox` for what each of them needs');
}

async function remoteOf(context: Context): Promise<Remote> {
  if (!context.settings.agent)
    throw new Refusal('no_identity', 'no agent identity; run `parley init <name>` first (or set PARLEY_AGENT)');
  const [home] = context.workspace.homes;
  if (home?.remote) return home.remote;
  throw new Refusal('not_found', atNoRelay(context));
}

function atNoRelay(context: Context): string {
  const others = relayMailboxes(parleyHome(context.env)).map(({ agent }) => `--as ${agent}`);
  const hint = others.length > 0 ? `; for your mailboxes at relays: ${[...new Set(others)].join(', ')}` : '';
  return `@${context.settings.agent} is at no relay; what it sends is stored at once${hint}`;
}

function list(context: Context, waiting: OutboxRow[]): void {
  if (context.json) {
    return context.sayJson(
      waiting.map(({ state, outgoing }) => ({
        state,
        ...outgoing.content,
        id: outgoing.id,
        key: outgoing.key,
        written: outgoing.written,
        why: outgoing.why,
      })),
    );
  }
  if (waiting.length === 0) return context.say('outbox empty');
  for (const { state, outgoing } of waiting) {
    const { to, body } = outgoing.content;
    const line = `${context.paint.bold(nameOf(outgoing))}  ${state}  to ${lineForModel(to, 80)}  ${ago(outgoing.written, context.workspace.now())}`;
    context.say(
      `${line}\n  ${gist(body)}${outgoing.why ? `\n  ${context.paint.dim(lineForModel(outgoing.why, 400))}` : ''}`,
    );
  }
  if (waiting.some(({ state }) => state === 'queued'))
    context.note(
      `send it now: parley outbox send${context.asOption}   or your next command that reaches the relay sends it`,
    );
}

/** Its short id, and its key if the sender gave it one. */
function nameOf({ id, key, named }: OutgoingMessage): string {
  if (id === undefined) return lineForModel(key, 80);
  return named ? `${shortId(id)}  key ${lineForModel(key, 80)}` : shortId(id);
}

/** Who wants to be at which relay, and what admits it there. */
export interface JoinOrder {
  agent: AgentName;
  url: string;
  room?: string | undefined;
  /** The room's token. */
  token?: string | undefined;
  channels?: readonly string[] | undefined;
  insecure: boolean;
  /** A session of a client that is to be this agent's. */
  session?: string | undefined;
  /** Be this agent from now on, even if there is one already. */
  byDefault: boolean;
}

interface JoinedRelay {
  url: string;
  root: string;
  /** We were there before, under this name. */
  existed: boolean;
  isDefault: boolean;
}

/** Registers an agent at a relay and keeps its token in a folder of its own: no other agent's is touched. */
export async function joinRelay(context: Context, order: JoinOrder): Promise<JoinedRelay> {
  const { agent, room, token } = order;
  const url = relayAddress(order.url, order.insecure);
  await refuseLocalName(context, agent);
  const place = { agent, url, ...(room && { room }) };
  const root = folderFor(parleyHome(context.env), place);
  const saved = readIdentity(root);
  const known = await registerAt(place, agent, { room: token, own: saved?.token });
  const abilities = await firstAbilities(place);
  writeIdentity(root, { v: 1, ...place, ...(known.token && { token: known.token }), ...(abilities && { abilities }) });
  const home = openRemoteHome({ root, durability: context.settings.durability });
  await home.mailboxes.adopt(agent);
  for (const channel of order.channels ?? []) {
    await home.directory.subscribe(agent, anyChannel(channel));
  }
  prepareHook(context, { name: agent, home }, order.session);
  const config = `${parleyHome(context.env)}/config.json`;
  const isDefault = becomeDefault(config, agent, order.byDefault) === agent;
  const all = readdirSync(`${parleyHome(context.env)}/relays`).filter((name) => name.startsWith(`${agent}@`));
  if (all.length > 1)
    context.note(`@${agent} is at several relays now; choose one with PARLEY_RELAY: ${all.join(', ')}`);
  return { url, root, existed: saved !== null && !known.issued, isDefault };
}

/** One name, one inbox: mail of a local mailbox and of a relay would wait in two places, and one of them would not be looked at. */
async function refuseLocalName(context: Context, agent: AgentName): Promise<void> {
  const local = context.workspace.homes.find((home) => home.label === 'parley');
  if (!(await local?.directory.get(agent))) return;
  throw new Refusal(
    'name_taken',
    `@${agent} has a mailbox on this machine; join under another name, or remove that one first: parley forget ${agent}`,
  );
}

/** What an agent says when it is at a relay from now on, and how to go on. */
export function welcome(context: Context, agent: AgentName, { url, root, isDefault }: JoinedRelay): void {
  context.say(
    isDefault
      ? `You are @${agent} here. Next: parley send @<someone> "hello"   (parley agents lists who is there)`
      : `Act as it with --as ${agent} or PARLEY_AGENT=${agent}; to make it the default: parley init ${agent} --url ${url} --default`,
  );
  context.note(`its token is in ${root}/relay.json, readable by you only`);
}

export const commands = {
  join: joinCommand,
  invite: inviteCommand,
  room: roomCommand,
  outbox: outboxCommand,
};
