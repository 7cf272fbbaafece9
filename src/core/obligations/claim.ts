import { receipt } from '../receipt.ts';
import { CLAIM_MS, newObligation } from './rules.ts';
import type { Message } from '../message.ts';
import type { AgentName, MessageId } from '../names.ts';
import { Refusal } from '../refusal.ts';
import type { EventClaim } from '../ports/obligations.ts';
import { rootOf } from '../mail/conversation.ts';
import type { Workspace, Home, Who } from '../mail/workspace.ts';
import { endObligation, enterObligations } from './obligation.ts';
import { isOffered, passOn } from './responders.ts';
import { visible } from '../history/sight.ts';

/**
 * Makes this agent the only one that answers a message, or a whole thread if `id` is its first message. If several agents claim at once, one
 * wins, and the refusal names it to the others. A claim lasts ten minutes, and every act of its holder on the message renews it. The holder
 * sees the whole text.
 */
export async function claim(workspace: Workspace, who: Who, id: MessageId): Promise<EventClaim> {
  const { message } = await visible([who], id);
  const now = workspace.now();
  if (message.from === who.name) throw new Refusal('invalid_request', 'it is your own message; others may claim it');
  const asked = await askedInstead(who, id);
  if (asked) throw alreadyClaimed(id, { holder: asked });
  const other = await claimOn(who.home, message, now, who.name);
  const held =
    other && other.holder !== who.name
      ? other
      : await who.home.journal.claimEvent({ key: id, holder: who.name, until: now + CLAIM_MS, reserved: false }, now);
  if (held.holder !== who.name) throw alreadyClaimed(id, held);
  const evidence = { by: who.name, until: new Date(held.until).toISOString() };
  await who.home.journal.record(who.name, id, receipt('claimed', now, evidence));
  await oweClaimed(who, message, held.until);
  return held;
}

/** Another agent that the message names and that still owes the answer. No other agent can claim the message then. */
async function askedInstead({ name, home }: Who, id: MessageId): Promise<AgentName | undefined> {
  await enterObligations(home);
  const copies = (await home.journal.trace(id))?.copies ?? [];
  const named = copies.filter(({ attention }) => attention.directedness === 'to_me').map(({ mailbox }) => mailbox);
  if (named.includes(name)) return undefined;
  for (const mailbox of named) {
    const obligation = await home.journal.obligation(mailbox, id);
    if (obligation && !obligation.ended) return mailbox;
  }
  return undefined;
}

/** Makes the holder of a claim owe the answer, and raises its copy so that it sees the whole text. */
async function oweClaimed({ name, home }: Who, message: Message, until: number): Promise<void> {
  const copy = await home.journal.copy(name, message.id);
  if (!copy) return;
  await enterObligations(home);
  const { attention } = copy;
  if (attention.policy === 'may_respond') {
    await home.journal.addObligation(newObligation({ message, mailbox: name, attention, isPerson: false }));
  }
  await home.journal.changeObligation(name, message.id, (obligation) =>
    // A claim does not give an obligation more time.
    obligation.kind === 'obligation'
      ? null
      : { ...obligation, state: 'claimed', due: obligation.due === null ? null : until },
  );
  if (copy.state === 'settled' || isShownInFull(attention.injection)) return;
  await home.journal.reconsider(name, message.id, { ...attention, injection: 'buffered' });
  await home.mailboxes.raise(name, message.id);
}

function isShownInFull(injection: string): boolean {
  return injection === 'immediate' || injection === 'buffered';
}

/** Gives up a claim. False if this agent did not have it. */
export async function unclaim(workspace: Workspace, who: Who, id: MessageId): Promise<boolean> {
  const { message } = await visible([who], id);
  const freed = await who.home.journal.freeClaim(id, who.name);
  if (freed) {
    await giveBack(workspace, who, message);
    await who.home.journal.record(who.name, id, receipt('released', workspace.now(), { claim: 'given up' }));
  }
  return freed;
}

/** Passes a message that was offered to several agents on to the next one. A message for this agent alone is still owed. */
async function giveBack(workspace: Workspace, { name, home }: Who, message: Message): Promise<void> {
  const now = workspace.now();
  const copy = await home.journal.copy(name, message.id);
  if (copy && isOffered(copy)) {
    await endObligation(home, name, message.id, 'ignored', { because: 'its claim was given up' }, now);
    await passOn(workspace, home, message, now);
    return;
  }
  await home.journal.changeObligation(name, message.id, (obligation) =>
    obligation.state === 'claimed'
      ? { ...obligation, state: 'open', due: obligation.due === null ? null : now + obligation.every }
      : null,
  );
}

/**
 * The claim on this message, or on its whole thread; null if there is none. A claim of another agent on the thread does not count for a
 * `reader` that the message names and that still owes the answer.
 */
export async function claimOn(
  home: Home,
  message: Message,
  now: number,
  reader?: AgentName,
): Promise<EventClaim | null> {
  const own = await home.journal.eventClaim(message.id, now);
  if (own) return own;
  const root = rootOf(message);
  const claim = root === message.id ? null : await home.journal.eventClaim(root, now);
  if (!claim || reader === undefined || claim.holder === reader) return claim;
  const obligation = await home.journal.obligation(reader, message.id);
  const copy = await home.journal.copy(reader, message.id);
  return obligation && !obligation.ended && copy?.attention.directedness === 'to_me' ? null : claim;
}

/** Renews a claim when its holder acts on the message. */
export async function renewClaim(home: Home, holder: Who['name'], key: MessageId, now: number): Promise<void> {
  const held = await home.journal.eventClaim(key, now);
  if (held?.holder !== holder) return;
  await home.journal.claimEvent({ key, holder, until: now + CLAIM_MS, reserved: false }, now);
}

function alreadyClaimed(id: MessageId, { holder }: Pick<EventClaim, 'holder'>): Refusal {
  return new Refusal('already_claimed', `@${holder} answers for event ${id.slice(0, 8)}; leave it to them`);
}
