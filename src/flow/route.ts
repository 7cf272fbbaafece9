import { parseAddress } from '../protocol/address.ts';
import type { Address } from '../protocol/address.ts';
import type { AgentName } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { AgentRecord } from '../storage/directory/directory.ts';
import type { Desk, Home } from './desk.ts';

/** Who gets a copy, where, and on what ground. `to` is the address without its home: as the readers there write it. */
export interface Route {
  home: Home;
  to: string;
  via: 'dm' | 'role' | 'channel';
  recipients: AgentRecord[];
}

/** Step 2 of 5. Decides who gets a copy. Nobody is reached by guess: an unknown or doubtful name is refused. */
export async function route(desk: Desk, from: AgentName, text: string): Promise<Route> {
  const address = (desk.readAddress ?? parseAddress)(text);
  const homes = desk.homes.filter((home) => !address.home || home.label === address.home);
  const found: Route[] = [];
  for (const home of homes) {
    const inHome = await routeIn(home, from, address);
    // Without a home in it the text stays as it was typed.
    if (inHome) found.push({ ...inHome, to: address.home ? withoutHome(text) : text });
  }
  const [only, ...others] = found;
  if (!only) throw (await desk.unreachable?.(text)) ?? (await unknown(homes, address));
  if (others.length > 0) {
    const forms = found.map((one) => `${withoutHome(text)}%${one.home.label}`).join(' or ');
    throw new Refusal('ambiguous', `${withoutHome(text)} is in several homes; write ${forms}`);
  }
  return only;
}

async function routeIn(home: Home, from: AgentName, address: Address): Promise<Omit<Route, 'to'> | null> {
  if (address.kind === 'channel') {
    const others = (await home.directory.subscribers(address.channel)).filter(({ name }) => name !== from);
    return others.length > 0 ? { home, via: 'channel', recipients: others } : null;
  }
  const agent = await home.directory.get(address.name);
  if (agent) return { home, via: 'dm', recipients: [agent] };
  const members = (await home.directory.members(address.name)).filter(({ name }) => name !== from);
  return members.length > 0 ? { home, via: 'role', recipients: members } : null;
}

async function unknown(homes: readonly Home[], address: Address): Promise<Refusal> {
  const { nearest } = await import('./nearest.ts');
  if (address.kind === 'channel') {
    const channels = (await Promise.all(homes.map((home) => home.directory.channels()))).flat();
    const known = nearest(
      address.channel,
      channels.filter((channel) => channel !== address.channel),
    );
    return new Refusal(
      'unknown_recipient',
      `channel ${address.channel} has no other subscribers, so nobody would get this; ${suggestion(known, '`parley channels`')}`,
    );
  }
  const names = (await Promise.all(homes.map((home) => home.directory.list()))).flat().map((record) => record.name);
  const known = nearest(address.name, names).map((name) => `@${name}`);
  return new Refusal(
    'unknown_recipient',
    `no agent or role is called @${address.name}; ${suggestion(known, '`parley agents`')}`,
  );
}

function suggestion(known: string[], list: string): string {
  return known.length > 0 ? `did you mean ${known.join(' or ')}?` : `see ${list} for who is here`;
}

function withoutHome(text: string): string {
  return text.replace(/%[A-Za-z0-9]+$/, '');
}
