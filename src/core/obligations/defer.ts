import { receipt } from '../receipt.ts';
import { DEFER_MS, deferredUntil } from './rules.ts';
import { masked } from '../attention/secrets.ts';
import type { Obligation } from './rules.ts';
import type { MessageId, AgentName } from '../names.ts';
import { Refusal } from '../refusal.ts';
import type { Workspace, Who, Home } from '../mail/workspace.ts';
import { enterObligations, discharge, endObligation } from './obligation.ts';
import { visible } from '../history/sight.ts';
import { replyOutcome } from '../attention/reply-rules.ts';
import type { Message } from '../message.ts';
import type { Evidence } from '../receipt.ts';
import { rootOf } from '../mail/conversation.ts';
import { settleIfOpen } from '../mail/settle.ts';

/** The longest time of one defer. */
const LONGEST_MS = 30 * 24 * 60 * 60 * 1000;

/**
 * Puts off an answer, with a reason that the author can read. The answer stays owed, and the message comes back at `until`, or after half
 * an hour. spec: c2a#duties
 */
export async function defer(
  workspace: Workspace,
  who: Who,
  id: MessageId,
  why: { reason: string; until?: string | undefined },
): Promise<Obligation> {
  const { home } = await visible([who], id);
  const now = workspace.now();
  const reason = masked(why.reason.trim()).slice(0, 500);
  if (reason === '') throw new Refusal('invalid_request', 'say why it has to wait');
  const until = why.until === undefined ? now + DEFER_MS : Date.parse(why.until);
  if (!(until > now && until <= now + LONGEST_MS)) {
    throw new Refusal('invalid_request', 'until must be a time in the future, at most 30 days from now');
  }
  await enterObligations(home);
  const obligation = await home.journal.changeObligation(who.name, id, (open) => deferredUntil(open, until, reason));
  if (!obligation) throw new Refusal('invalid_request', `nothing is owed for event ${id.slice(0, 8)}; leave it`);
  if (obligation.ended)
    throw new Refusal('already_claimed', `event ${id.slice(0, 8)} is already ${obligation.ended.as}`);
  const evidence = { reason, until: new Date(obligation.due ?? until).toISOString() };
  await home.journal.record(who.name, id, receipt('deferred', now, evidence));
  return obligation;
}

/** How many messages of a thread one call closes. */
const EXCHANGE = 500;

/**
 * Closes a message, or the whole thread that it began: ends the obligations of this agent there, and discharges those that it waits for.
 * Obligations between other agents stay. Returns the ids of the closed messages. spec: c2a#duties
 */
export async function resolve(workspace: Workspace, who: Who, id: MessageId, note?: string): Promise<MessageId[]> {
  const { home, message } = await visible([who], id);
  await enterObligations(home);
  const by: Evidence = { by: 'resolve', agent: who.name, ...(note && { note: masked(note).slice(0, 500) }) };
  const opened = rootOf(message) === id ? await home.journal.exchange(id, EXCHANGE) : [];
  const closed: MessageId[] = [];
  for (const one of opened.some((other) => other.id === id) ? opened : [message, ...opened]) {
    if (await close(workspace, who, home, one, by)) closed.push(one.id);
  }
  await home.journal.freeClaim(id, who.name);
  return closed;
}

async function close(workspace: Workspace, who: Who, home: Home, message: Message, by: Evidence): Promise<boolean> {
  const now = workspace.now();
  const mine = await home.journal.obligation(who.name, message.id);
  let closed = false;
  if (mine && !mine.ended) {
    // A reader cannot discharge its own obligation. The attempt is kept as evidence.
    const ended = await endObligation(home, who.name, message.id, 'responded', by, now);
    closed = ended?.ended !== null;
  }
  const as = replyOutcome((await home.journal.copy(who.name, message.id))?.attention.policy);
  if (mine?.kind !== 'obligation' && (await settleIfOpen({ ...who, home }, message.id, as, by))) closed = true;
  const waits = message.from === who.name || message.parley?.obligation?.delegate === who.name;
  for (const mailbox of waits ? await readersOf(home, message.id) : []) {
    const theirs = await home.journal.obligation(mailbox, message.id);
    if (!theirs || theirs.ended || mailbox === who.name) continue;
    await discharge(home, mailbox, message.id, 'responded', by, now);
    closed = true;
  }
  return closed;
}

async function readersOf(home: Home, id: MessageId): Promise<AgentName[]> {
  return (await home.journal.trace(id))?.copies.map(({ mailbox }) => mailbox) ?? [];
}
