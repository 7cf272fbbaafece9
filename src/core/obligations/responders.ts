import { receipt } from '../receipt.ts';
import type { AgentName, MessageId } from '../names.ts';
import { newObligation, RESERVED_MS } from './rules.ts';
import { isQuiet } from '../attention/attention.ts';
import type { Message } from '../message.ts';
import type { Copy } from '../ports/journal.ts';
import { isQuietAt } from '../mail/attend.ts';
import type { Workspace, Home } from '../mail/workspace.ts';

interface Candidate {
  name: AgentName;
  /** Idle since (ms). A busy agent has a later time than all idle ones. */
  idleSince: number;
  /** How many obligations it has. */
  open: number;
}

/** The agent that should answer a message that was offered to several; null if there is none. spec: c2a#roles */
export function chooseResponder(candidates: readonly Candidate[], event: MessageId): AgentName | null {
  return rankResponders(candidates, event)[0] ?? null;
}

/** All candidates in order: longest idle, then fewest obligations, then by hash. */
export function rankResponders(candidates: readonly Candidate[], event: MessageId): AgentName[] {
  const drawn = candidates.map((one) => ({ ...one, lot: lotOf(`${event} ${one.name}`) }));
  return drawn
    .toSorted((a, b) => compare(a.idleSince, b.idleSince) || compare(a.open, b.open) || compare(a.lot, b.lot))
    .map(({ name }) => name);
}

function compare(a: number, b: number): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A hash (FNV-1a): the same in every process for one name and message, but different for each message. */
function lotOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let n = 0; n < text.length; n += 1) hash = Math.imul(hash ^ text.charCodeAt(n), 0x01000193);
  // Mix again: the last letters hardly change the upper bits, which decide the order.
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  hash = Math.imul(hash ^ (hash >>> 12), 0x297a2d39);
  return (hash ^ (hash >>> 15)) >>> 0;
}

/** An agent that was not seen for this long is asked last. */
const LATELY_MS = 60 * 60 * 1000;
/** Counting obligations stops here. */
const MANY = 100;

/** Chooses one of the copies for the members of a role to be announced. The others wait quietly and can be listed. */
export async function oneResponder(home: Home, message: Message, copies: Copy[], now: number): Promise<Copy[]> {
  const offered = copies.filter(isOffered);
  if (offered.length < 2) return copies;
  const loud = offered.filter(({ attention }) => !isQuiet(attention));
  const [chosen] = await ranked(home, message, loud.length > 0 ? loud : offered, now);
  return copies.map((copy) => {
    if (!isOffered(copy) || copy.mailbox === chosen || isQuiet(copy.attention)) return copy;
    return { ...copy, attention: { ...copy.attention, injection: 'tool_mailbox' as const } };
  });
}

/** Reserves the message for the chosen agent for a minute. If it does not react, a host asks the next one. */
export async function reserve(home: Home, message: Message, copies: readonly Copy[], now: number): Promise<void> {
  const chosen = copies.find((copy) => isOffered(copy) && !isQuiet(copy.attention));
  if (!chosen) return;
  const { mailbox: holder, attention } = chosen;
  const until = now + RESERVED_MS;
  await home.journal.claimEvent({ key: message.id, holder, until, reserved: true }, now);
  const obligation = newObligation({ message, mailbox: holder, attention, isPerson: false });
  await home.journal.addObligation({ ...obligation, due: until });
}

/** Asks the next agent that the message was offered to. Null if there is none, or if an agent has claimed the message. */
export async function passOn(
  _workspace: Workspace,
  home: Home,
  message: Message,
  now: number,
): Promise<AgentName | null> {
  if (await home.journal.eventClaim(message.id, now)) return null;
  const copies = (await home.journal.trace(message.id))?.copies ?? [];
  const left: Copy[] = [];
  for (const copy of copies.filter(isOffered)) {
    const asked = await home.journal.obligation(copy.mailbox, message.id);
    const quiet = (await home.directory.get(copy.mailbox))?.parley?.quiet;
    if (asked || (quiet && (await isQuietAt(quiet, now)))) continue;
    if (copy.state === 'stored' || copy.state === 'held') left.push(copy);
  }
  const [next] = await ranked(home, message, left, now);
  const copy = left.find(({ mailbox }) => mailbox === next);
  if (!copy) return null;
  const attention = { ...copy.attention, injection: 'notify' as const };
  await home.journal.reconsider(copy.mailbox, message.id, attention);
  await home.mailboxes.raise(copy.mailbox, message.id);
  await reserve(home, message, [{ ...copy, attention }], now);
  const evidence = { because: 'the one before did not take it' };
  await home.journal.record(copy.mailbox, message.id, receipt('reconsidered', now, evidence));
  return copy.mailbox;
}

/** Is this a copy that was offered to a member of a role? */
export function isOffered({ attention }: Copy): boolean {
  return attention.reason === 'role_mention' && attention.policy === 'may_respond';
}

/** The readers of these copies in order: agents that were seen lately come first, each group with the longest idle agent first. */
async function ranked(home: Home, message: Message, copies: readonly Copy[], now: number): Promise<AgentName[]> {
  const candidates = [];
  for (const { mailbox } of copies) {
    const record = await home.directory.get(mailbox);
    const open = await home.journal.owedCount(mailbox, MANY);
    candidates.push({ name: mailbox, idleSince: Date.parse(record?.lastSeen ?? '') || 0, open });
  }
  const isHere = ({ idleSince }: { idleSince: number }): boolean => now - idleSince < LATELY_MS;
  return [
    ...rankResponders(candidates.filter(isHere), message.id),
    ...rankResponders(
      candidates.filter((one) => !isHere(one)),
      message.id,
    ),
  ];
}
