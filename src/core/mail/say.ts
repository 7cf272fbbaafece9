import { receipt } from '../receipt.ts';
import { mentionsIn } from '../attention/text.ts';
import { deadlineOf } from '../obligations/rules.ts';
import { replyOutcome, refusalOf } from '../attention/reply-rules.ts';
import type { Reply } from '../attention/reply-rules.ts';
import type { Obligation } from '../obligations/rules.ts';
import type { Directedness } from '../attention/attention.ts';
import { isBlank } from '../message.ts';
import type { Blocking, Intent, Message, Priority } from '../message.ts';
import { shortId } from '../names.ts';
import type { MessageId, SendKey } from '../names.ts';
import { Refusal } from '../refusal.ts';
import { HOST_NAME } from '../signal.ts';
import type { CopyRecord } from '../ports/journal.ts';
import { renewClaim, claimOn } from '../obligations/claim.ts';
import { isOfferedToSeveral, rootOf } from './conversation.ts';
import { receiptsOf } from './workspace.ts';
import type { Workspace, Home, Who } from './workspace.ts';
import { enterObligations, obligationState } from '../obligations/obligation.ts';
import { refuseExposure } from './private.ts';
import { route } from './route.ts';
import { arrivalOf, setAside } from './arrival.ts';
import { replyAddress, send } from './send.ts';
import type { Sent } from './send.ts';
import { settleIfOpen } from './settle.ts';
import { visible } from '../history/sight.ts';
import type { Seen } from '../history/sight.ts';

/** A message that an agent sends by a tool. If directedness and visibility are left out, the address and the text decide, as for a command. */
export interface Said {
  /** `@name`, `#channel`, or `thread:<id>`: the readers of that thread. */
  target: string;
  text: string;
  inReplyTo?: string | undefined;
  idempotencyKey: SendKey;
  visibility?: 'dm' | 'thread' | 'channel' | 'ephemeral' | undefined;
  directedness?: Directedness | undefined;
  intent: Intent;
  priority: Priority;
  refs?: string[] | undefined;
  obligation?: Blocking | undefined;
  /** The text is the final text of a turn, not sent by a tool. */
  captured?: true | undefined;
  /** After the deadline the message may be sent although its author has not read the thread. */
  mayBeLate?: boolean | undefined;
}

/** How many obligations are searched for the message that a text without a thread answers. */
const OWED_LOOK = 50;
/** How many messages of an exchange are read. */
const EXCHANGE = 50;

/**
 * Answers the sender of a message in its thread, as `parley reply` does, but refuses a reply that the policy of the message does not allow.
 * After the deadline the author must first read the thread, but only if others have written there: a hook may have shown the message long
 * after it was sent.
 */
export async function reply(
  workspace: Workspace,
  who: Who,
  id: MessageId,
  said: Omit<Said, 'target' | 'inReplyTo'>,
): Promise<Sent> {
  const { home, message, recipients } = await visible([who], id);
  if (message.from === who.name && !recipients.includes(who.name))
    throw new Refusal(
      'invalid_request',
      `message ${shortId(id)} is your own; to add to it, use send with re: ${shortId(id)}`,
    );
  return say(workspace, who, {
    ...said,
    target: await replyAddress(home, message),
    inReplyTo: id,
    mayBeLate: !(await hasNewMessages(who, home, message)),
  });
}

/** Have others written in the exchange after this message? */
async function hasNewMessages(who: Who, home: Home, message: Message): Promise<boolean> {
  const exchange = await home.journal.exchange(rootOf(message), EXCHANGE);
  const since = exchange.slice(exchange.findIndex(({ id }) => id === message.id) + 1);
  return since.some(({ from, parley }) => from !== who.name && from !== HOST_NAME && parley?.signal === undefined);
}

/**
 * `chat.send_message`: sends a text, once per key, if the event that it answers allows it. Otherwise nothing is sent, and the refusal is
 * recorded with the event. An answer is linked to its event, also if the caller did not name the event. spec: host#send
 */
export async function say(workspace: Workspace, who: Who, said: Said): Promise<Sent> {
  if (isBlank(said.text)) throw new Refusal('invalid_request', 'text is empty: write what you want to say');
  const earlier = await who.home.journal.underKey(who.name, said.idempotencyKey);
  const { to, thread } = await addressOf(who, said);
  const draft = {
    to,
    body: said.text,
    priority: said.priority,
    intent: said.intent,
    key: said.idempotencyKey,
    aim: said.directedness,
    ...(said.refs && { refs: said.refs }),
    ...(said.captured && { captured: said.captured }),
    ...(said.obligation && { obligation: said.obligation }),
  };
  // For a known key `send` returns the first result, and refuses a different text.
  if (earlier) return send(workspace, who.name, { ...draft, ...threadOf(earlier.message) });
  refuseVisibility(said, to);
  const about = thread ?? (await lastOwedTo(who, to))?.id;
  const seen = about === undefined ? null : await visible([who], about);
  await refuseReply(workspace, who, said, to, seen);
  const linked = { ...draft, ...(seen && { thread: seen.message.id }) };
  await refuseExposure(workspace, who, linked);
  const sent = await send(workspace, who.name, linked);
  if (seen) await afterReply(workspace, who, seen, sent);
  return sent;
}

function threadOf({ thread }: Message): { thread?: MessageId } {
  return thread === undefined ? {} : { thread: thread as MessageId };
}

/** The address of a target, and the thread that it names. For `thread:<event>` the address is that of the thread's other side. */
async function addressOf(who: Who, { target, inReplyTo }: Said): Promise<{ to: string; thread?: string }> {
  const named = /^(?:thread:)(.+)$/.exec(target)?.[1];
  const about = inReplyTo ?? named;
  if (named === undefined) return { to: target.replace(/^dm:/, '@'), ...(about !== undefined && { thread: about }) };
  const { message, recipients } = await visible([who], named);
  const isMine = message.from === who.name;
  const to = message.to.startsWith('#') ? message.to : `@${isMine ? (recipients[0] ?? message.from) : message.from}`;
  return { to, thread: about ?? named };
}

/** Refuses a visibility that the address does not have: a text is never shown to more readers than its author asked for. */
function refuseVisibility({ visibility, inReplyTo, target }: Said, to: string): void {
  const isChannel = to.startsWith('#');
  if (visibility === 'ephemeral') {
    throw new Refusal('not_in_this_version', 'nothing here can show a message for a moment only; send it as a dm');
  }
  if (visibility === 'dm' && isChannel) {
    throw new Refusal('invalid_request', `visibility is dm, but ${to} is a channel; name one reader as the target`);
  }
  if (visibility === 'channel' && !isChannel) {
    throw new Refusal(
      'invalid_request',
      `visibility is channel, but ${to} is not a channel; use dm, or name a channel`,
    );
  }
  if (visibility === 'thread' && inReplyTo === undefined && !target.startsWith('thread:')) {
    throw new Refusal('invalid_request', 'visibility thread needs inReplyTo, or a target thread:<eventId>');
  }
}

/** The newest open obligation of this agent towards the agent that it writes to. */
async function lastOwedTo(who: Who, to: string): Promise<Obligation | undefined> {
  await enterObligations(who.home);
  const name = to.replace(/^@/, '').replace(/%\w+$/, '');
  const owed = await who.home.journal.owed(who.name, { limit: OWED_LOOK });
  for (const obligation of owed.filter(({ from }) => from === name).toReversed()) {
    const message = await who.home.journal.message(obligation.id);
    if ((await obligationState(who.home, obligation, message)) === 'open') return obligation;
  }
  return undefined;
}

async function refuseReply(workspace: Workspace, who: Who, said: Said, to: string, seen: Seen | null): Promise<void> {
  const about = seen ? await replyStateOf(workspace, who, seen) : NO_EVENT;
  const refusal = refusalOf({
    ...about,
    stale: about.stale && !said.mayBeLate,
    text: said.text,
    directedness: said.directedness,
    visibility: said.visibility,
    recipients: await countMeant(workspace, who, said, to),
  });
  if (!refusal) return;
  if (seen) {
    const refused = receipt('refused', workspace.now(), { ...refusal });
    await seen.home.journal.record(who.name, seen.message.id, refused);
  }
  throw new Refusal(refusal.code, refusal.why);
}

/** What decides whether an event may be answered. */
type ReplyState = Omit<Reply, 'text' | 'directedness' | 'visibility' | 'recipients'>;

/** For a text that answers no event: every agent may send it. */
const NO_EVENT: ReplyState = {
  policy: 'may_respond',
  ended: null,
  claimedBy: null,
  claimed: true,
  offeredToSeveral: false,
  stale: false,
};

/** The state of an event for this reader. */
async function replyStateOf(workspace: Workspace, who: Who, { home, message, recipients }: Seen): Promise<ReplyState> {
  const now = workspace.now();
  await enterObligations(home);
  const copy = await home.journal.copy(who.name, message.id);
  const obligation = await home.journal.obligation(who.name, message.id);
  const claim = await claimOn(home, message, now, who.name);
  const isMine = claim?.holder === who.name;
  const own = await lastOwn(who, home, message);
  return {
    // A message to nobody in particular may be answered by the agent that claimed it.
    policy:
      isMine && copy?.attention.reason === 'ambient' ? 'may_respond' : policyOf(who, message, copy, obligation, now),
    ended: obligation?.ended?.as ?? (copy?.disposition === 'superseded' ? 'superseded' : null),
    claimedBy: claim && claim.holder !== who.name ? `@${claim.holder}` : null,
    claimed: isMine || copy?.attention.directedness === 'to_me' || message.from === who.name,
    offeredToSeveral: isOfferedToSeveral(message, recipients),
    ...(own && own.id !== message.id && { lastOwn: own.body }),
    stale: obligation !== null && isLate(obligation, now) && !(await hasReadThread(who, message, obligation)),
  };
}

/** The last message of this reader in the exchange of an event. One that a surface refused does not count: it may be sent again. */
async function lastOwn(who: Who, home: Home, message: Message): Promise<Message | undefined> {
  const exchange = await home.journal.exchange(rootOf(message), EXCHANGE);
  const own = exchange.filter(({ from, parley }) => from === who.name && parley?.signal === undefined);
  for (const said of own.toReversed()) {
    if (typeof (await arrivalOf(home, message.from, said)) !== 'object') return said;
  }
  return undefined;
}

/** The policy for a reply now: after the deadline `must_respond` becomes `may_respond`. An author may always add to its own message. */
function policyOf(
  who: Who,
  message: Message,
  copy: CopyRecord | null,
  obligation: Obligation | null,
  now: number,
): Reply['policy'] {
  if (message.from === who.name) return 'may_respond';
  if (!copy) return 'must_not_respond';
  return obligation && isLate(obligation, now) ? 'may_respond' : copy.attention.policy;
}

function isLate(obligation: Obligation, now: number): boolean {
  return obligation.kind === 'reply' && obligation.ended === null && now > deadlineOf(obligation);
}

/** Has this reader read the thread since the deadline? */
async function hasReadThread(who: Who, message: Message, obligation: Obligation): Promise<boolean> {
  const since = deadlineOf(obligation);
  const receipts = await receiptsOf(who, message.id);
  return receipts.some(({ evidence, at }) => evidence['by'] === 'chat.read_thread' && Date.parse(at) >= since);
}

/** How many readers a text with directedness `to_me` is meant for: in a channel those that it names, for a role all its holders. */
async function countMeant(workspace: Workspace, who: Who, { text, directedness }: Said, to: string): Promise<number> {
  if (directedness !== 'to_me') return 1;
  const { via, recipients } = await route(workspace, who.name, to);
  if (via !== 'channel') return recipients.length;
  const named = new Set(mentionsIn(text));
  return recipients.filter(({ name }) => named.has(name)).length;
}

/** Renews the claim of the agent that answered, and settles its copy. If a chat must still show the answer, the copy is set aside until then. */
async function afterReply(workspace: Workspace, who: Who, { home, message }: Seen, sent: Sent): Promise<void> {
  await renewClaim(home, who.name, message.id, workspace.now());
  const obligation = await home.journal.obligation(who.name, message.id);
  if (obligation?.kind === 'obligation') return;
  if ((await arrivalOf(home, message.from, sent.message)) === 'waiting') return setAside({ ...who, home }, message.id);
  const policy = (await home.journal.copy(who.name, message.id))?.attention.policy;
  await settleIfOpen({ ...who, home }, message.id, replyOutcome(policy), { reply: sent.message.id });
}
