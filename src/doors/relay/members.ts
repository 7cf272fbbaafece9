import { anyChannel } from '../../protocol/backchannel.ts';
import type { ChannelName } from '../../protocol/names.ts';
import { badRequest } from './phrases.ts';
import { told } from './register.ts';
import { json, SMALL_BODY } from './relay.ts';
import type { Asked, Relay } from './relay.ts';

const LONGEST_CHANNEL = 512;
/** They stand on one record, which is written anew with each. */
const MOST_CHANNELS = 1000;

/** Everybody in the room. spec: relay#agents */
export async function agents(c: Asked): Promise<Response> {
  return json(c, (await c.room.home.directory.list()).map(told));
}

/** Not `directory.channels()`: that one lists only names that Parley itself would allow. */
export async function channels(c: Asked): Promise<Response> {
  const records = await c.room.home.directory.list();
  return json(c, [...new Set(records.flatMap((record) => record.subscriptions))].sort());
}

/** The caller joins a channel. Whom the request names besides does not matter. */
export async function subscribe(relay: Relay, c: Asked): Promise<Response> {
  const channel = await channelIn(relay, c);
  const { name, home } = c.who;
  const subscriptions = (await home.directory.get(name))?.subscriptions ?? [];
  if (subscriptions.length >= MOST_CHANNELS && !subscriptions.includes(channel)) {
    throw badRequest(`you are in ${MOST_CHANNELS} channels — leave one first`);
  }
  await home.directory.subscribe(name, channel);
  return json(c, { ok: true });
}

export async function unsubscribe(relay: Relay, c: Asked): Promise<Response> {
  const channel = await channelIn(relay, c);
  const { name, home } = c.who;
  await home.directory.unsubscribe(name, channel);
  return json(c, { ok: true });
}

async function channelIn(relay: Relay, c: Asked): Promise<ChannelName> {
  const channel = (await relay.fields(c, SMALL_BODY)).text('channel');
  if (channel.length > LONGEST_CHANNEL) throw badRequest(`a channel's name has at most ${LONGEST_CHANNEL} characters`);
  return anyChannel(channel);
}
