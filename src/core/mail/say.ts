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

/** What an agent says by a tool. Without directedness and visibility nothing is asked for: the address and the text decide, as for a command. */
export interface Said {
  /** `@name`, `#channel`, or `thread:<id>`: those whom that thread is with. */
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
  /** It is the final text of a turn: nobody sent it by a tool. */
  captured?: true | undefined;
  /** After the deadline it may be said without a look at the thread. */
  mayBeLate?: boolean | undefined;
}

/** How much of what somebody owes is looked through for what a message without a thread answers. */
const OWED_LOOK = 50;
const EXCHANGE = 50;

/**
 * Answers a message as `parley reply` does: its sender, in its thread. Unlike the command it refuses what the message does not allow. A
 * late answer needs a look at the thread only if there is something to see: a hook may have shown the message long after it was sent.
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
      `message ${shortId(id)} is your own; to write on, use send with re: ${shortId(id)}`,
    );
  return say(workspace, who, {
    ...said,
    target: await replyAddress(home, message),
    inReplyTo: id,
    mayBeLate: !(await wentOn(who, home, message)),
  });
}

/** Did others say something in the exchange after this message? */
async function wentOn(who: Who, home: Home, message: Message): Promise<boolean> {
  const exchange = await home.journal.exchange(rootOf(message), EXCHANGE);
  const since = exchange.slice(exchange.findIndex(({ id }) => id === message.id) + 1);
  return since.some(({ from, parley }) => from !== who.name && from !== HOST_NAME && parley?.signal === undefined);
}

/**
 * `chat.send_message`: says something, once per key, if the event that it answers allows it. A refusal is kept with the event, and
 * nothing is sent. What answers an event is linked to it, also where the caller forgot to say so. spec: host#send
 */
export async function say(workspace: Workspace, who: Who, said: Said): Promise<Sent> {
  if (isBlank(said.text)) throw new Refusal('invalid_request', 'text is empty: write what you want to say');
  const earlier = await who.home.journal.underKey(who.name, said.idempotencyKey);
  const { to, thread } = await aimOf(who, said);
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
  // Under a known key the first answer counts; whether it says the same is seen there.
  if (earlier) return send(workspace, who.name, { ...draft, ...threadOf(earlier.message) });
  refuseVisibility(said, to);
  const about = thread ?? (await owedTo(who, to))?.id;
  const seen = about === undefined ? null : await visible([who], about);
  await refuseReply(workspace, who, said, to, seen);
  const whole = { ...draft, ...(seen && { thread: seen.message.id }) };
  await refuseExposure(workspace, who, whole);
  const sent = await send(workspace, who.name, whole);
  if (seen) await afterReply(workspace, who, seen, sent);
  return sent;
}

function threadOf({ thread }: Message): { thread?: MessageId } {
  return thread === undefined ? {} : { thread: thread as MessageId };
}

/** `@name`, `#channel`, or `thread:<event>`: then to those whom that thread is with. */
async function aimOf(who: Who, { target, inReplyTo }: Said): Promise<{ to: string; thread?: string }> {
  const named = /^(?:thread:)(.+)$/.exec(target)?.[1];
  const about = inReplyTo ?? named;
  if (named === undefined) return { to: target.replace(/^dm:/, '@'), ...(about !== undefined && { thread: about }) };
  const { message, recipients } = await visible([who], named);
  const isMine = message.from === who.name;
  const to = message.to.startsWith('#') ? message.to : `@${isMine ? (recipients[0] ?? message.from) : message.from}`;
  return { to, thread: about ?? named };
}

/** What was asked to be shown to few is never shown to more. */
function refuseVisibility({ visibility, inReplyTo, target }: Said, to: string): void {
  const isChannel = to.startsWith('#');
  if (visibility === 'ephemeral') {
    throw new Refusal('not_in_this_version', 'nothing here can show a message for a moment only; send it as a dm');
  }
  if (visibility === 'dm' && isChannel) {
    throw new Refusal('invalid_request', `visibility dm, but ${to} is a channel; name the one who shall read it`);
  }
  if (visibility === 'channel' && !isChannel) {
    throw new Refusal('invalid_request', `visibility channel, but ${to} is none; use dm, or name a channel`);
  }
  if (visibility === 'thread' && inReplyTo === undefined && !target.startsWith('thread:')) {
    throw new Refusal('invalid_request', 'visibility thread needs inReplyTo, or a target thread:<eventId>');
  }
}

/** The last thing that this agent owes to the one whom it writes to, and has not answered. */
async function owedTo(who: Who, to: string): Promise<Obligation | undefined> {
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
  const about = seen ? await standingOf(workspace, who, seen) : FREE;
  const refusal = refusalOf({
    ...about,
    stale: about.stale && !said.mayBeLate,
    text: said.text,
    directedness: said.directedness,
    visibility: said.visibility,
    recipients: await meant(workspace, who, said, to),
  });
  if (!refusal) return;
  if (seen) {
    const refused = receipt('refused', workspace.now(), { ...refusal });
    await seen.home.journal.record(who.name, seen.message.id, refused);
  }
  throw new Refusal(refusal.code, refusal.why);
}

type Standing = Omit<Reply, 'text' | 'directedness' | 'visibility' | 'recipients'>;

/** Nothing is answered: anyone who has something to say may say it. */
const FREE: Standing = {
  policy: 'may_respond',
  ended: null,
  claimedBy: null,
  claimed: true,
  offeredToSeveral: false,
  stale: false,
};

/** The state of an event for this reader. */
async function standingOf(workspace: Workspace, who: Who, { home, message, recipients }: Seen): Promise<Standing> {
  const now = workspace.now();
  await enterObligations(home);
  const copy = await home.journal.copy(who.name, message.id);
  const obligation = await home.journal.obligation(who.name, message.id);
  const claim = await claimOn(home, message, now, who.name);
  const isMine = claim?.holder === who.name;
  const own = await lastWords(who, home, message);
  return {
    // Anyone who claimed what was said to nobody in particular has made it its own.
    policy:
      isMine && copy?.attention.reason === 'ambient' ? 'may_respond' : policyOf(who, message, copy, obligation, now),
    ended: obligation?.ended?.as ?? (copy?.disposition === 'superseded' ? 'superseded' : null),
    claimedBy: claim && claim.holder !== who.name ? `@${claim.holder}` : null,
    claimed: isMine || copy?.attention.directedness === 'to_me' || message.from === who.name,
    offeredToSeveral: isOfferedToSeveral(message, recipients),
    ...(own && own.id !== message.id && { lastOwn: own.body }),
    stale: obligation !== null && isLate(obligation, now) && !(await wasPulled(who, message, obligation)),
  };
}

/** What this reader said last in the exchange of an event. What a surface refused nobody has heard: it can be said again. */
async function lastWords(who: Who, home: Home, message: Message): Promise<Message | undefined> {
  const exchange = await home.journal.exchange(rootOf(message), EXCHANGE);
  const own = exchange.filter(({ from, parley }) => from === who.name && parley?.signal === undefined);
  for (const said of own.toReversed()) {
    if (typeof (await arrivalOf(home, message.from, said)) !== 'object') return said;
  }
  return undefined;
}

/** After its deadline what had to be answered may be. One's own words may always be added to. */
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
async function wasPulled(who: Who, message: Message, obligation: Obligation): Promise<boolean> {
  const since = deadlineOf(obligation);
  const receipts = await receiptsOf(who, message.id);
  return receipts.some(({ evidence, at }) => evidence['by'] === 'chat.read_thread' && Date.parse(at) >= since);
}

/** How many are meant: of a channel those whom the text names, of a role all who have it. */
async function meant(workspace: Workspace, who: Who, { text, directedness }: Said, to: string): Promise<number> {
  if (directedness !== 'to_me') return 1;
  const { via, recipients } = await route(workspace, who.name, to);
  if (via !== 'channel') return recipients.length;
  const named = new Set(mentionsIn(text));
  return recipients.filter(({ name }) => named.has(name)).length;
}

/** Anyone who answers keeps the claim, and settles its copy, unless the answer is still to be shown. */
async function afterReply(workspace: Workspace, who: Who, { home, message }: Seen, sent: Sent): Promise<void> {
  await renewClaim(home, who.name, message.id, workspace.now());
  const obligation = await home.journal.obligation(who.name, message.id);
  if (obligation?.kind === 'obligation') return;
  if ((await arrivalOf(home, message.from, sent.message)) === 'waiting') return setAside({ ...who, home }, message.id);
  const policy = (await home.journal.copy(who.name, message.id))?.attention.policy;
  await settleIfOpen({ ...who, home }, message.id, replyOutcome(policy), { reply: sent.message.id });
}
