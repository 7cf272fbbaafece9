import { openRooms } from '../../protocols/backchannel/relay-rooms.ts';
import { RELAY_OPTIONS } from '../../protocols/backchannel/relay-options.ts';
import { command } from '../../core/command.ts';
import type { OpenService } from '../../core/service.ts';
import { nearest } from '../../core/nearest.ts';
import { backchannelHome } from '../../platform/env.ts';
import { servingLog } from '../../platform/log.ts';
import { serveUntilSignal, tellWarnings } from '../../platform/serve.ts';
import { RoomId } from '../../core/names.ts';
import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { hashOf, newAgentToken } from '../../wire/tokens.ts';
import { relay } from '../../protocols/backchannel/relay.ts';
import type { AgentRecord, Directory } from '../../core/ports/directory.ts';
import { DEFAULT_ROOM } from '../../protocols/backchannel/rooms.ts';
import { agentName } from '../context.ts';
import type { Context } from '../context.ts';
import { COMMON } from '../parley.ts';

const relayCommand = command({
  usage: 'relay  |  relay token <list|issue|rotate|revoke> [agent]',
  about:
    'Serves the rooms of your Backchannel home over HTTP, until Ctrl-C: agents on other machines register there and exchange mail.\n' +
    'It listens on this machine only, unless you give --host, or --public for a proxy; then a room token is required.\n' +
    'BACKCHANNEL_TOKEN is the token of the default room. BACKCHANNEL_ADMIN_TOKEN allows to make rooms and to read /metrics.\n' +
    '`relay token` lists who has a token, and issues, replaces or revokes one, also while the relay runs.',
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
  async run(context: Context, values, words) {
    const [word, ...rest] = words;
    if (word === 'token') return relayToken(context, rest, values);
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
    const log = servingLog({ json: values['json-logs'] ?? false, verbose: context.verbose });
    const open = async (): Promise<OpenService[]> => {
      const service = await relay.open(context, values, log);
      tellWarnings(service, values['json-logs'] ? log : null);
      if (context.json) context.sayJson({ url: service.address, pid: process.pid, about: service.about });
      else
        context.say([`relay listening on ${service.address}`, ...service.about.map((line) => `  ${line}`)].join('\n'));
      return [service];
    };
    await serveUntilSignal(open, log, () => {});
  },
});

const USAGE =
  'usage: parley relay token list | issue <agent> | rotate <agent> | revoke <agent>, each with --room <id> or without';

/** The record of an agent in a room. */
interface Bearer {
  directory: Directory;
  room: RoomId;
  record: AgentRecord;
}

/**
 * `parley relay token …`: who may log in at the relay of this machine. It works on the records; a relay that runs sees them, so
 * nothing has to be restarted. A token is told once: only its hash is kept.
 */
export async function relayToken(context: Context, words: string[], values: { room?: string }): Promise<void> {
  refuseOthers(values);
  const [verb = '', ...names] = words;
  const room = roomFrom(values.room);
  const rooms = await openRooms(backchannelHome(context.env));
  if ((await rooms.tokenHash(room)) === undefined) throw unknownRoom(room, await rooms.list());
  const directory = rooms.directory(room);
  if (verb === 'list' && names.length === 0) return list(context, room, directory);
  const act = Object.hasOwn(ACTS, verb) ? ACTS[verb] : undefined;
  const [text] = names;
  if (!act || text === undefined || names.length > 1) throw new Refusal('invalid_request', USAGE);
  const name = agentName(text);
  const record = await directory.get(name);
  if (!record) throw await unknownAgent(name, room, directory);
  await act(context, { directory, room, record });
}

const ACTS: Record<string, (context: Context, bearer: Bearer) => Promise<void>> = {
  async issue(context, bearer) {
    const { name, tokenHash } = bearer.record;
    if (tokenHash)
      throw new Refusal(
        'name_taken',
        `@${name} has a token; \`rotate\` gives it another and ends that one, \`revoke\` ends it`,
      );
    await give(context, bearer, 'a relay that runs knows it within a second');
  },

  async rotate(context, bearer) {
    const { name, tokenHash } = bearer.record;
    if (!tokenHash) throw new Refusal('not_found', `@${name} has no token to replace; \`issue\` gives it one`);
    await give(context, bearer, 'the one before ends within a second');
  },

  async revoke(context, { directory, room, record: { name, tokenHash } }) {
    if (tokenHash) await directory.giveToken(name, null);
    if (context.json) return context.sayJson({ agent: name, room, revoked: Boolean(tokenHash) });
    if (!tokenHash) return context.say(`@${name} had no token`);
    context.say(`@${name} cannot log in any more; a running relay knows it within a second`);
    context.note(
      `its name and mail stay; nobody gets them by the room token, only by \`parley relay token issue ${name}\``,
    );
  },
};

async function list(context: Context, room: RoomId, directory: Directory): Promise<void> {
  const records = await directory.list();
  const rows = records.map(({ name, lastSeen, tokenHash }) => ({
    agent: name,
    room,
    hasToken: Boolean(tokenHash),
    lastSeen,
  }));
  if (context.json) context.sayJson(rows);
  else if (rows.length === 0) context.say(`nobody is in room ${room}`);
  else context.say(rows.map(({ agent, hasToken }) => `@${agent}  ${hasToken ? 'has a token' : 'no token'}`).join('\n'));
  for (const path of await directory.unreadable()) context.note(`${path} cannot be read: its agent cannot log in`);
  for (const names of sharing(records)) {
    const all = names.map((name) => `@${name}`).join(' and ');
    context.note(`${all} share one token, so it is nobody's: rotate it for each`);
  }
}

/** A record that was copied carries its agent's token, too. */
function sharing(records: AgentRecord[]): AgentName[][] {
  const holders = Map.groupBy(
    records.filter(({ tokenHash }) => tokenHash),
    ({ tokenHash }) => tokenHash,
  );
  return [...holders.values()].filter((some) => some.length > 1).map((some) => some.map(({ name }) => name));
}

async function give(context: Context, { directory, room, record: { name } }: Bearer, effect: string): Promise<void> {
  const token = newAgentToken();
  await directory.giveToken(name, hashOf(token));
  if (context.json) context.sayJson({ agent: name, room, token });
  else context.say(token);
  context.note(
    `this is the token of @${name} in room ${room}; it is shown only now, so keep it secret and safe; ${effect}`,
  );
}

/** The options of `parley relay` itself mean nothing here, and what means nothing is a misunderstanding. */
function refuseOthers(values: object): void {
  const [other] = Object.keys(values).filter((name) => name !== 'room' && !Object.hasOwn(COMMON, name));
  if (other) throw new Refusal('invalid_request', `--${other} does not belong to \`parley relay token\``);
}

function roomFrom(text: string | undefined): RoomId {
  if (text === undefined) return DEFAULT_ROOM;
  const id = RoomId.safeParse(text);
  if (id.success) return id.data;
  throw new Refusal('invalid_request', `invalid room "${text.slice(0, 80)}" (${id.why})`);
}

function unknownRoom(room: RoomId, rooms: RoomId[]): Refusal {
  const [near] = nearest(room, rooms);
  return new Refusal(
    'not_found',
    `there is no room "${room}"; ${near ? `did you mean ${near}?` : `there are: ${rooms.join(', ')}`}`,
  );
}

async function unknownAgent(name: AgentName, room: RoomId, directory: Directory): Promise<Refusal> {
  const names = (await directory.list()).map((record) => record.name);
  const [near] = nearest(name, names);
  const how =
    room === DEFAULT_ROOM ? `\`bch init ${name}\` makes it here` : 'it must register first, with the room token';
  return new Refusal(
    'not_found',
    `no agent is called ${name} in room ${room}; ${near ? `did you mean ${near}?` : how}`,
  );
}

export const commands = {
  relay: relayCommand,
};
