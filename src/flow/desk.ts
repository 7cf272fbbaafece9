import type { Address, HomeLabel } from '../protocol/address.ts';
import type { AgentName, MessageId } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { Directory } from '../storage/directory/directory.ts';
import type { Ledger } from '../storage/ledger/ledger.ts';
import type { Spool } from '../storage/spool/spool.ts';

/** A folder with a spool, its ledger and its directory. */
export interface Home {
  label: HomeLabel;
  root: string;
  spool: Spool;
  ledger: Ledger;
  directory: Directory;
}

/** What the five verbs work with. The first home is one's own; the others are looked into after it. */
export interface Desk {
  homes: readonly Home[];
  now: () => number;
  newId: () => MessageId;
  bodyLimit: number;
  /** How a dialect reads what its users write as a recipient; without it, Parley's own way. */
  readAddress?: (text: string) => Address;
}

/** An agent, and the home in which its mailbox stands. */
export interface Who {
  name: AgentName;
  home: Home;
}

/** Finds a message by the start of its id in every home. An ambiguous start is refused with the candidates. */
export async function findMessage(desk: Desk, prefix: string): Promise<{ home: Home; id: MessageId }> {
  const found: { home: Home; id: MessageId }[] = [];
  for (const home of desk.homes) {
    for (const id of await home.ledger.idsLike(prefix)) found.push({ home, id });
  }
  return onlyOne(prefix, found);
}

/** Of several things whose ids begin alike, the one that is meant; otherwise a refusal that names them. */
export function onlyOne<T extends { id: MessageId }>(prefix: string, found: T[]): T {
  if (prefix === '') throw new Refusal('invalid_request', 'name a message: the first characters of its id');
  const exact = found.find((one) => one.id === prefix);
  const [only, ...others] = exact ? [exact] : found;
  if (!only)
    throw new Refusal(
      'not_found',
      `no message has an id that begins with "${prefix.slice(0, 80)}"; see \`parley history\``,
    );
  if (others.length > 0) {
    const candidates = found.map((one) => one.id.slice(0, 13)).join(', ');
    throw new Refusal('ambiguous', `"${prefix}" begins the ids of several messages: ${candidates}; give more of it`);
  }
  return only;
}
