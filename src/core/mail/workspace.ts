import type { Address, HomeLabel } from '../address.ts';
import type { AgentName, MessageId } from '../names.ts';
import { Refusal } from '../refusal.ts';
import type { AgentRecord, Directory } from '../ports/directory.ts';
import type { Receipt } from '../receipt.ts';
import type { Journal } from '../ports/journal.ts';
import type { Remote } from '../ports/remote.ts';
import type { Mailboxes } from '../ports/mailboxes.ts';

/** A folder with mailboxes, their journal and a directory. If it has `remote`, its agents are at a relay on another machine. */
export interface Home {
  label: HomeLabel;
  root: string;
  mailboxes: Mailboxes;
  journal: Journal;
  directory: Directory;
  remote?: Remote;
}

/** What send, route, attend, deliver and settle work with. The first home is the caller's own; the others are searched after it. */
export interface Workspace {
  homes: readonly Home[];
  now: () => number;
  newId: () => MessageId;
  /** `newId` returns ids that other programs chose, so an id may already exist and must be looked up. */
  givenIds?: true;
  bodyLimit: number;
  /** How another protocol parses an address. The default is Parley's own parser. */
  readAddress?: (text: string) => Address;
  /** The refusal for an unknown recipient. The default suggests the nearest names. */
  unreachable?: (text: string, from: AgentName) => Refusal | null | Promise<Refusal | null>;
  /** Returns the recipients whose mailboxes have room for one more copy. Refuses if none has. Without this function all have room. */
  admit?: (home: Home, recipients: AgentRecord[]) => AgentRecord[] | Promise<AgentRecord[]>;
}

/** An agent, and the home that has its mailbox. */
export interface Who {
  name: AgentName;
  home: Home;
  /** A mailbox of the same home that this agent shares with others: each of them may take what waits there. See shared.ts. */
  shares?: AgentName | undefined;
}

/** The receipts of this agent's copy of a message, oldest first. */
export async function receiptsOf({ name, home }: Who, id: MessageId): Promise<Receipt[]> {
  const trace = await home.journal.trace(id);
  return trace?.copies.find(({ mailbox }) => mailbox === name)?.receipts ?? [];
}

/**
 * Finds a message in all homes by the start of its id, also by the id that it had in the outbox for a relay. Refuses an ambiguous start and
 * names the candidates.
 */
export async function findMessage(workspace: Workspace, prefix: string): Promise<{ home: Home; id: MessageId }> {
  const found: { home: Home; id: MessageId }[] = [];
  for (const home of workspace.homes) {
    const ids = [...(await home.journal.idsLike(prefix)), ...((await home.remote?.sentAs(prefix)) ?? [])];
    for (const id of new Set(ids)) found.push({ home, id });
  }
  if (found.length === 0 && prefix !== '') await refuseQueued(workspace, prefix);
  return onlyOne(prefix, found);
}

/** Refuses a message that is still in the outbox: it has an id, but it cannot be shown or answered yet. */
async function refuseQueued(workspace: Workspace, prefix: string): Promise<void> {
  for (const { remote } of workspace.homes) {
    const outgoing = (await remote?.outbox())?.find((one) => one.outgoing.id?.startsWith(prefix));
    if (!outgoing) continue;
    const id = outgoing.outgoing.id?.slice(0, 8);
    throw new Refusal(
      'not_found',
      `${id} is in the outbox (${outgoing.state}), and not at the relay yet; see \`parley outbox\``,
    );
  }
}

/** The only match for an id prefix. Several matches are refused, with their names. */
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
