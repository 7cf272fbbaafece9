import { newDuty, RESERVED_MS } from '../attention/ladder.ts';
import { rankResponders } from '../attention/responder.ts';
import { isQuiet } from '../protocol/attention.ts';
import type { Message } from '../protocol/message.ts';
import type { AgentName } from '../protocol/names.ts';
import type { Copy } from '../storage/ledger/ledger.ts';
import { isHushedAt } from './attend.ts';
import type { Workspace, Home } from './workspace.ts';

/** Who was not here for longer than this is asked after all others. */
const LATELY_MS = 60 * 60 * 1000;
/** More duties than this are counted as this many. */
const MANY = 100;

/** Of the copies that offer an event to the members of a role, one knocks; the others wait quietly and can be listed. */
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

/** Keeps the event for the one who was chosen, for a minute. If it says nothing the next is asked, where time works. */
export async function reserve(home: Home, message: Message, copies: readonly Copy[], now: number): Promise<void> {
  const chosen = copies.find((copy) => isOffered(copy) && !isQuiet(copy.attention));
  if (!chosen) return;
  const { mailbox: holder, attention } = chosen;
  const until = now + RESERVED_MS;
  await home.ledger.claimEvent({ key: message.id, holder, until, reserved: true }, now);
  const duty = newDuty({ message, mailbox: holder, attention, isPerson: false });
  await home.ledger.addDuty({ ...duty, due: until });
}

/** Asks the next of those to whom the event was offered and who were not asked yet. Null if there is none, or somebody has it. */
export async function passOn(
  _workspace: Workspace,
  home: Home,
  message: Message,
  now: number,
): Promise<AgentName | null> {
  if (await home.ledger.eventClaim(message.id, now)) return null;
  const copies = (await home.ledger.trace(message.id))?.copies ?? [];
  const left: Copy[] = [];
  for (const copy of copies.filter(isOffered)) {
    const asked = await home.ledger.duty(copy.mailbox, message.id);
    const quiet = (await home.directory.get(copy.mailbox))?.parley?.quiet;
    if (asked || (quiet && (await isHushedAt(quiet, now)))) continue;
    if (copy.state === 'stored' || copy.state === 'held') left.push(copy);
  }
  const [next] = await ranked(home, message, left, now);
  const copy = left.find(({ mailbox }) => mailbox === next);
  if (!copy) return null;
  const attention = { ...copy.attention, injection: 'notify' as const };
  await home.ledger.reconsider(copy.mailbox, message.id, attention);
  await home.spool.raise(copy.mailbox, message.id);
  await reserve(home, message, [{ ...copy, attention }], now);
  const evidence = { because: 'the one before did not take it' };
  const receipt = { step: 'reconsidered' as const, at: new Date(now).toISOString(), evidence };
  await home.ledger.record(copy.mailbox, message.id, receipt);
  return copy.mailbox;
}

/** Was it offered to the members of a role? */
export function isOffered({ attention }: Copy): boolean {
  return attention.reason === 'role_mention' && attention.policy === 'may_respond';
}

/** Those who were here lately come first, and among them who was idle the longest. */
async function ranked(home: Home, message: Message, copies: readonly Copy[], now: number): Promise<AgentName[]> {
  const candidates = [];
  for (const { mailbox } of copies) {
    const record = await home.directory.get(mailbox);
    const open = await home.ledger.owedCount(mailbox, MANY);
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
