import { nearest } from '../nearest.ts';
import type { Message } from '../message.ts';
import type { AgentRecord } from '../ports/directory.ts';
import type { Copy } from '../ports/journal.ts';
import { parseAddress } from '../address.ts';
import type { Address } from '../address.ts';
import type { AgentName } from '../names.ts';
import { Refusal } from '../refusal.ts';
import type { Workspace, Home } from './workspace.ts';

/** `<platform>._surface` is the mailbox for messages in the channels of a chat platform. No person there can have this name. */
export const SURFACE_BOX = '._surface';

/**
 * Drops copies for people who read the channel in a chat and need not answer: the chat has one copy and shows it to all of them. So a
 * channel costs the same, however many people are in it. People who are addressed keep a copy, because they can owe an answer.
 */
export function withoutOverhearers(copies: Copy[]): Copy[] {
  const isAtSurface = readersAtSurface(copies.map(({ mailbox }) => mailbox));
  return copies.filter(({ mailbox, attention }) => attention.policy !== 'must_not_respond' || !isAtSurface(mailbox));
}

/** Drops readers who clearly get no copy, before the slow decision for each reader. A channel may have thousands of readers. */
export function withoutStrangers(readers: AgentRecord[], message: Message): AgentRecord[] {
  const { thread, body, parley: extras } = message;
  if (thread !== undefined) return readers;
  const isAtSurface = readersAtSurface(readers.map(({ name }) => name));
  // A search for the whole name is faster than parsing the mentions.
  const isNamed = (name: string): boolean =>
    extras?.mentions ? extras.mentions.some((one) => one === name) : body.includes('@') && body.includes(name);
  return readers.filter(({ name, parley }) => {
    if (!isAtSurface(name)) return true;
    return !parley || parley.roles.length > 0 || parley.owns !== undefined || isNamed(name);
  });
}

/** Returns a test whether a reader reads in a chat that has its own copy. */
function readersAtSurface(names: readonly string[]): (name: string) => boolean {
  const boxes = names.filter((name) => name.endsWith(SURFACE_BOX));
  const platforms = boxes.map((box) => box.slice(0, 1 - SURFACE_BOX.length));
  return (name) => platforms.some((platform) => name.startsWith(platform)) && !boxes.includes(name);
}

/** Who gets a copy, in which home, and why. `to` is the address without the home, as readers there write it. */
export interface Route {
  home: Home;
  to: string;
  via: 'dm' | 'role' | 'channel';
  recipients: AgentRecord[];
}

/** Step 2 of 5. Decides who gets a copy. An unknown or ambiguous name is refused, never guessed. */
export async function route(workspace: Workspace, from: AgentName, text: string): Promise<Route> {
  const address = (workspace.readAddress ?? parseAddress)(text);
  const homes = address.home ? workspace.homes.filter(({ label }) => label === address.home) : workspace.homes;
  // An address without a home stays as it was typed.
  const to = address.home ? withoutHome(text) : text;
  const found: Route[] = [];
  for (const home of homes) {
    const agent = address.kind === 'name' ? await home.directory.get(address.name) : null;
    const recipients = agent ? [agent] : await several(home, from, address);
    const via = agent ? 'dm' : address.kind === 'name' ? 'role' : 'channel';
    if (recipients.length > 0) found.push({ home, to, via, recipients });
  }
  const [only] = found;
  if (!only) throw (await workspace.unreachable?.(text, from)) ?? (await unknown(homes, address));
  if (found.length > 1) {
    const forms = found.map((one) => `${withoutHome(text)}%${one.home.label}`).join(' or ');
    throw new Refusal('ambiguous', `${withoutHome(text)} is in several homes; write ${forms}`);
  }
  return only;
}

/** The subscribers of a channel or the holders of a role, without the sender. */
async function several({ directory }: Home, from: AgentName, address: Address): Promise<AgentRecord[]> {
  const isChannel = address.kind === 'channel';
  const all = await (isChannel ? directory.subscribers(address.channel) : directory.members(address.name));
  return all.filter(({ name }) => name !== from);
}

async function unknown(homes: readonly Home[], address: Address): Promise<Refusal> {
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
  return known.length > 0 ? `did you mean ${known.join(' or ')}?` : `see ${list}`;
}

function withoutHome(text: string): string {
  return text.replace(/%[A-Za-z0-9]+$/, '');
}
