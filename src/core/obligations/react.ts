import { receipt } from '../receipt.ts';
import { sayHeld } from '../mail/private.ts';
import { outcomeOf } from '../attention/reply-rules.ts';
import type { Draft, Message } from '../message.ts';
import { AgentName, isMessageId } from '../names.ts';
import type { MessageId, SendKey } from '../names.ts';
import type { Disposition } from '../receipt.ts';
import { Refusal } from '../refusal.ts';
import { isKnownSignal, HOST_NAME } from '../signal.ts';
import type { KnownSignal, Signal } from '../signal.ts';
import { isAgent } from '../mail/attend.ts';
import { claim } from './claim.ts';
import type { Workspace, Who, Home } from '../mail/workspace.ts';
import { enterObligations, afterEnd, signalled } from './obligation.ts';
import { dispositionOf } from '../history/events.ts';
import { sendKeyOf, post } from './owners.ts';
import { passOn } from './responders.ts';
import { send } from '../mail/send.ts';
import type { Sent } from '../mail/send.ts';
import { settleIfOpen } from '../mail/settle.ts';
import { visible } from '../history/sight.ts';
import type { Seen } from '../history/sight.ts';
import { newObligation } from './rules.ts';
import type { Obligation } from './rules.ts';
import { rootOf } from '../mail/conversation.ts';
import { escalate } from './escalate.ts';

/** A stored reaction, and the new state of the obligation that it is about. */
export interface Reacted {
  sent: Sent | null;
  disposition: Disposition | null;
  final: boolean;
}

export interface Reaction {
  signal: Signal;
  eta?: string | undefined;
  /** A text of the agent that reacts. It follows the signal. */
  note?: string | undefined;
  /** The agent whose obligation the reaction is about, if the author or delegate reacts. */
  recipient?: AgentName | undefined;
  key?: SendKey | undefined;
  /** The chat platform's id of the conversation, if a chat gives it. */
  conversation?: string | undefined;
  /** What to do with a reaction to an unknown message: keep it, or refuse it. */
  ifUnknown?: 'keep' | 'refuse';
}

/**
 * Reacts to a message with one signal, which starts no turn. The reaction is stored like a message, the author of the message gets it
 * quietly, and it changes the obligation. A reaction to a message that is not here yet is kept and applied later. spec: c2a#signals
 */
export async function react(workspace: Workspace, who: Who, id: MessageId, reaction: Reaction): Promise<Reacted> {
  const seen = await visible([who], id).catch((error: unknown) => {
    if (reaction.ifUnknown !== 'refuse' && error instanceof Refusal) return null;
    throw error;
  });
  if (!seen) return { sent: await write(workspace, who, id, who.name, reaction), disposition: null, final: false };
  const { signal } = reaction;
  // These signals also claim the message. If two agents try, the refusal tells the second who was first.
  if ((signal === 'claimed' || signal === 'working') && seen.recipients.includes(who.name))
    await claim(workspace, who, id);
  await enterObligations(seen.home);
  const concerned = concernedBy(who, seen, reaction);
  const { message, home } = seen;
  const to = message.from === who.name ? (concerned ?? who.name) : message.from;
  const sent = await write(workspace, who, id, to, {
    ...reaction,
    ...(message.from === who.name && { recipient: concerned }),
  });
  await home.journal.record(who.name, id, receipt('reacted', workspace.now(), { signal, reaction: sent.message.id }));
  // An agent that will not act gives up its claim.
  if (signal === 'declined') await home.journal.freeClaim(id, who.name);
  if (!concerned || !isKnownSignal(signal)) return { sent, disposition: null, final: false };
  const outcome = await apply(workspace, { name: concerned, home }, message, sent, signal);
  if (signal === 'agree' && message.parley?.held) await sendHeldText(workspace, who, seen);
  return { sent, ...outcome };
}

/** Sends the held text of an approval request, if the person who was asked agrees. */
async function sendHeldText(workspace: Workspace, { name }: Who, { home, message, recipients }: Seen): Promise<void> {
  if (!recipients.includes(name) || (await isAgent(home, name))) return;
  await sayHeld(workspace, home, message);
}

/**
 * The agent whose obligation a reaction is about: a reader reacts to its own; the author or delegate to that of the agent that they name, or
 * of the only recipient. Undefined for anybody else, whose reaction changes no obligation.
 */
function concernedBy(who: Who, { message, recipients }: Seen, { recipient }: Reaction): AgentName | undefined {
  const maySay = message.from === who.name || message.parley?.obligation?.delegate === who.name;
  if (recipient !== undefined)
    return maySay || recipient === who.name ? recipients.find((name) => name === recipient) : undefined;
  if (recipients.includes(who.name)) return who.name;
  return maySay && recipients.length === 1 ? recipients[0] : undefined;
}

/** Stores a reaction as a message to `to`. If `to` has no mailbox here, the message goes to the agent that reacts. */
async function write(workspace: Workspace, who: Who, id: MessageId, to: string, reaction: Reaction): Promise<Sent> {
  const { signal, eta, note, recipient, conversation } = reaction;
  const key = reaction.key ?? sendKeyOf(`react/${id}/${signal}/${recipient ?? ''}/${eta ?? ''}`);
  const draft: Omit<Draft, 'to'> = {
    body: [signal, eta, note].filter(Boolean).join(' · '),
    priority: 'normal',
    intent: 'none',
    thread: id,
    signal,
    ...(eta && { eta }),
    ...(recipient && { recipient }),
    ...(conversation !== undefined && { conversation }),
    key,
  };
  const known = AgentName.safeParse(to);
  const isHere = known.success && (await who.home.directory.get(known.data)) !== null;
  return send(workspace, who.name, { ...draft, to: `@${isHere ? to : who.name}%${who.home.label}` });
}

/** Applies the signal to the copy and the obligation of `whose`. */
async function apply(
  workspace: Workspace,
  whose: Who,
  message: Message,
  sent: Sent,
  signal: KnownSignal,
): Promise<Omit<Reacted, 'sent'>> {
  const { home, name } = whose;
  const copy = await home.journal.copy(name, message.id);
  const outcome = await applyReaction(workspace, home, name, message, sent.message);
  const by = { signal, reaction: sent.message.id };
  if (!outcome) {
    const intent = message.parley?.intent ?? 'none';
    const ends = copy && outcomeOf(copy.attention.policy, intent, signal);
    if (ends?.final && ends.disposition) await settleIfOpen(whose, message.id, ends.disposition, by);
    return { disposition: ends?.disposition ?? null, final: ends?.final ?? false };
  }
  if (outcome.ended) await settleIfOpen(whose, message.id, outcome.ended.as, by);
  if (outcome.ended?.as === 'ignored') await passOn(workspace, home, message, workspace.now());
  return { disposition: dispositionOf(outcome), final: outcome.ended !== null };
}

/** How many messages of a thread are searched for reactions that came before their message. */
const EXCHANGE = 200;
/** When an unfinished step is tried again. */
const SOON_MS = 60_000;

/**
 * Applies a reaction to an obligation, and does what must follow (an escalation or a question back). Null if nothing is owed. The row stays
 * due until the follow-up is done, so a crash in between loses nothing.
 */
export async function applyReaction(
  workspace: Workspace,
  home: Home,
  name: AgentName,
  message: Message,
  reaction: Message,
): Promise<Obligation | null> {
  let outcome: ReturnType<typeof signalled> | undefined;
  const obligation = await home.journal.changeObligation(name, message.id, (open) => {
    outcome = signalled(open, message, reaction);
    return outcome.follow === 'nothing' ? outcome.obligation : { ...open, due: workspace.now() + SOON_MS };
  });
  if (!obligation || !outcome) return obligation;
  if (outcome.obligation.ended) await afterEnd(home, obligation);
  if (outcome.follow === 'nothing') return obligation;
  if (outcome.follow === 'escalate') await escalate(workspace, home, [outcome.obligation]);
  if (outcome.follow === 'ask_back') await askBack(workspace, home, message.from as AgentName, reaction);
  const { state, tier, due } = outcome.obligation;
  return home.journal.changeObligation(name, message.id, (open) => ({ ...open, state, tier, due }));
}

/** Applies a reaction that arrived before its message and needs a follow-up. True if there was one. */
export async function applyLate(
  workspace: Workspace,
  home: Home,
  obligation: Obligation,
  message: Message,
): Promise<boolean> {
  if (obligation.state !== 'open' || obligation.tier > 0) return false;
  for (const said of await home.journal.exchange(rootOf(message), EXCHANGE)) {
    if (said.parley?.signal === undefined || signalled(obligation, message, said).follow === 'nothing') continue;
    if (await wasAsked(home, message.from as AgentName, said)) continue;
    await applyReaction(workspace, home, obligation.mailbox, message, said);
    return true;
  }
  return false;
}

/** Makes the author owe a clarification. Its answer ends that obligation, and the paused one continues. */
async function askBack(workspace: Workspace, home: Home, author: AgentName, reaction: Message): Promise<void> {
  const copy = await home.journal.copy(author, reaction.id);
  if (!copy) return postQuestion(workspace, home, author, reaction);
  const attention = { ...copy.attention, policy: 'must_respond' as const };
  await home.journal.reconsider(author, reaction.id, attention);
  const isPerson = (await home.directory.get(author))?.parley?.kind === 'human';
  await home.journal.addObligation(newObligation({ message: reaction, mailbox: author, attention, isPerson }));
}

/** Sends the question back to an author that got no copy of the reaction, because it was unknown here at that time. */
async function postQuestion(workspace: Workspace, home: Home, author: AgentName, reaction: Message): Promise<void> {
  if (!(await home.directory.get(author))) return;
  await post(
    workspace,
    home,
    {
      to: `@${author}`,
      body: reaction.body,
      key: askedKey(reaction),
      signal: 'unclear',
      recipient: reaction.from as AgentName,
      ...(isMessageId(reaction.thread) && { thread: reaction.thread }),
    },
    author,
    { directedness: 'to_me', policy: 'must_respond', injection: 'notify', reason: 'reaction' },
  );
}

async function wasAsked(home: Home, author: AgentName, reaction: Message): Promise<boolean> {
  if (await home.journal.obligation(author, reaction.id)) return true;
  return (await home.journal.underKey(HOST_NAME, askedKey(reaction))) !== null;
}

function askedKey({ id }: Message): SendKey {
  return sendKeyOf(`ask/${id}`);
}
