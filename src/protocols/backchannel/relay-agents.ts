import { RELAY_NAME } from '../../core/signal.ts';
import { readName, anyChannel } from './names.ts';
import { AgentName } from '../../core/names.ts';
import { hashOf, newAgentToken, isToken, sameHash } from '../../wire/tokens.ts';
import type { AgentRecord } from '../../core/ports/directory.ts';
import { tokenOf } from './relay-guards.ts';
import type { Room } from './room-registry.ts';
import {
  Declined,
  nameTaken,
  NO_ROOM_TOKEN,
  phraseFor,
  roomFull,
  ROOMS_RESTRICTED,
  unknownRoom,
  badRequest,
} from './relay-phrases.ts';
import { json, SMALL_BODY } from './relay-state.ts';
import type { RelayCall, Relay } from './relay-state.ts';
import type { ChannelName } from '../../core/names.ts';

/** Makes a room. Anyone may, unless the relay has an admin token. spec: relay#rooms */
export async function openRoom(relay: Relay, c: RelayCall): Promise<Response> {
  const { adminTokenHash } = relay.deps.settings;
  const token = tokenOf(c.request);
  if (adminTokenHash !== null && !(token && isToken(token, adminTokenHash))) {
    relay.countStranger(c);
    throw new Declined(401, ROOMS_RESTRICTED);
  }
  // A room is a folder on our disk.
  if (adminTokenHash === null) relay.countStranger(c);
  const made = await relay.deps.rooms.create();
  relay.deps.log('room_made', { id: c.id, room: made.roomId });
  return json(c, made);
}

/** Admits a new agent by the room token, or a known agent again by its own token. spec: relay#register */
export async function register(relay: Relay, c: RelayCall): Promise<Response> {
  const id = relay.registry.named(c.request);
  let room: Room | null = null;
  try {
    const roomHash = await relay.deps.rooms.tokenHash(id);
    room = roomHash === undefined ? null : await relay.registry.enter(id);
    if (!room || roomHash === undefined) throw new Declined(404, unknownRoom(id));
    return await registerIn(relay, c, room, roomHash);
  } catch (error) {
    // Count every failure: only a successful caller has proven who it is.
    const phrase = phraseFor(error);
    if (phrase && phrase.status < 500 && phrase.status !== 429) relay.countStranger(c);
    throw error;
  } finally {
    if (room) relay.registry.leave(room);
  }
}

async function registerIn(relay: Relay, c: RelayCall, room: Room, roomHash: string | null): Promise<Response> {
  const { directory } = room.home;
  const token = tokenOf(c.request);
  const hash = token === null ? '' : hashOf(token);
  const asked = (await relay.fields(c, SMALL_BODY)).values['name'];
  const isAdmitted = roomHash === null || sameHash(hash, roomHash);
  const plausible = AgentName.safeParse(asked);
  const known = plausible.success ? await directory.get(plausible.data) : null;
  if (known) {
    if (sameHash(known.tokenHash ?? '', hash))
      return json(c, publicRecord(await directory.register(known.name, 'foreign')));
    // A record without a token was made on the host, and only there can it get one.
    throw new Declined(409, nameTaken(known.name));
  }
  if (!isAdmitted) throw new Declined(401, NO_ROOM_TOKEN);
  const name = readName(asked);
  // In any letter case: readers would take it for the relay's own name.
  if (name.toLowerCase() === RELAY_NAME) throw new Declined(409, nameTaken(name));
  relay.countJoining(c);
  const { mostAgents } = relay.deps.settings;
  if ((await directory.count()) >= mostAgents) throw new Declined(403, roomFull(mostAgents));
  const fresh = newAgentToken();
  const record = await directory.register(name, 'foreign', hashOf(fresh));
  // If several register at once, only one has made the record.
  if (!sameHash(record.tokenHash ?? '', hashOf(fresh))) throw new Declined(409, nameTaken(name));
  // Scripts write into mailbox folders directly, so the folder must exist.
  await relay.registry.open(room);
  await room.home.mailboxes.adopt(name);
  relay.deps.log('registered', { id: c.id, room: room.id, agent: name });
  return json(c, { ...publicRecord(record), token: fresh });
}

/** A record without its secret. */
export function publicRecord({ tokenHash: _secret, ...record }: AgentRecord): Omit<AgentRecord, 'tokenHash'> {
  return record;
}

const LONGEST_CHANNEL = 512;
/** The most subscriptions of an agent. They are in one record, which each change rewrites. */
const MOST_CHANNELS = 1000;

/** The agents of the room. spec: relay#agents */
export async function agents(c: RelayCall): Promise<Response> {
  return json(c, (await c.room.home.directory.list()).map(publicRecord));
}

/** The channels of the room. Not `directory.channels()`: it lists only names that Parley itself allows. */
export async function channels(c: RelayCall): Promise<Response> {
  const records = await c.room.home.directory.list();
  return json(c, [...new Set(records.flatMap((record) => record.subscriptions))].sort());
}

/** Subscribes the caller to a channel. An agent that the request names is ignored. */
export async function subscribe(relay: Relay, c: RelayCall): Promise<Response> {
  const channel = await channelIn(relay, c);
  const { name, home } = c.who;
  const subscriptions = (await home.directory.get(name))?.subscriptions ?? [];
  if (subscriptions.length >= MOST_CHANNELS && !subscriptions.includes(channel)) {
    throw badRequest(`you are in ${MOST_CHANNELS} channels — leave one first`);
  }
  await home.directory.subscribe(name, channel);
  return json(c, { ok: true });
}

export async function unsubscribe(relay: Relay, c: RelayCall): Promise<Response> {
  const channel = await channelIn(relay, c);
  const { name, home } = c.who;
  await home.directory.unsubscribe(name, channel);
  return json(c, { ok: true });
}

async function channelIn(relay: Relay, c: RelayCall): Promise<ChannelName> {
  const channel = (await relay.fields(c, SMALL_BODY)).text('channel');
  if (channel.length > LONGEST_CHANNEL) throw badRequest(`a channel's name has at most ${LONGEST_CHANNEL} characters`);
  return anyChannel(channel);
}
