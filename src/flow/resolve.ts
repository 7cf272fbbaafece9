import { replyOutcome } from '../attention/outcome.ts';
import { masked } from '../attention/secrets.ts';
import type { Message } from '../protocol/message.ts';
import type { AgentName, MessageId } from '../protocol/names.ts';
import type { Evidence } from '../protocol/receipt.ts';
import { rootOf } from './conversation.ts';
import type { Workspace, Home, Who } from './workspace.ts';
import { discharge, endDuty, enterDuties } from './duty.ts';
import { settleIfOpen } from './settle.ts';
import { visible } from './sight.ts';

/** How much of an exchange is seen to at once. */
const EXCHANGE = 500;

/**
 * Says that an event, or everything in the exchange that it opened, is done with: what this agent owes there is ended, and what it
 * waits for there is discharged. What others owe to others stays. Returns what was closed. spec: c2a#duties
 */
export async function resolve(workspace: Workspace, who: Who, id: MessageId, note?: string): Promise<MessageId[]> {
  const { home, message } = await visible([who], id);
  await enterDuties(home);
  const by: Evidence = { by: 'resolve', agent: who.name, ...(note && { note: masked(note).slice(0, 500) }) };
  const opened = rootOf(message) === id ? await home.ledger.exchange(id, EXCHANGE) : [];
  const closed: MessageId[] = [];
  for (const one of opened.some((other) => other.id === id) ? opened : [message, ...opened]) {
    if (await close(workspace, who, home, one, by)) closed.push(one.id);
  }
  await home.ledger.freeClaim(id, who.name);
  return closed;
}

async function close(workspace: Workspace, who: Who, home: Home, message: Message, by: Evidence): Promise<boolean> {
  const now = workspace.now();
  const mine = await home.ledger.duty(who.name, message.id);
  let closed = false;
  if (mine && !mine.ended) {
    // The reader's own word does not discharge an obligation: it is kept as evidence.
    const ended = await endDuty(home, who.name, message.id, 'responded', by, now);
    closed = ended?.ended !== null;
  }
  const as = replyOutcome((await home.ledger.copy(who.name, message.id))?.attention.policy);
  if (mine?.kind !== 'obligation' && (await settleIfOpen({ ...who, home }, message.id, as, by))) closed = true;
  const waits = message.from === who.name || message.parley?.obligation?.delegate === who.name;
  for (const mailbox of waits ? await readersOf(home, message.id) : []) {
    const theirs = await home.ledger.duty(mailbox, message.id);
    if (!theirs || theirs.ended || mailbox === who.name) continue;
    await discharge(home, mailbox, message.id, 'responded', by, now);
    closed = true;
  }
  return closed;
}

async function readersOf(home: Home, id: MessageId): Promise<AgentName[]> {
  return (await home.ledger.trace(id))?.copies.map(({ mailbox }) => mailbox) ?? [];
}
