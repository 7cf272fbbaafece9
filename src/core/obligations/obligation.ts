import { receipt } from '../receipt.ts';
import { newObligation, onSignal } from './rules.ts';
import type { Obligation } from './rules.ts';
import type { Message } from '../message.ts';
import { AgentName } from '../names.ts';
import type { MessageId } from '../names.ts';
import type { Disposition, Evidence } from '../receipt.ts';
import { HOST_NAME, isKnownSignal } from '../signal.ts';
import type { CopyRecord } from '../ports/journal.ts';
import { arrivalOf } from '../mail/arrival.ts';
import { rootOf } from '../mail/conversation.ts';
import { receiptsOf } from '../mail/workspace.ts';
import type { Home } from '../mail/workspace.ts';

/** How many copies are entered in one act. */
const BATCH = 200;
/** So many messages for which nothing is owed are looked at again each time. */
const FEW = 100;
/** How much of an exchange is looked at to tell what became of one message in it. */
const EXCHANGE = 1000;

/**
 * Enters what must be answered and was accepted since somebody last asked, until all is entered. What was answered, reacted to or
 * ended before is entered as it is, so it makes no difference when this is done. A send pays nothing for it.
 */
export async function enterObligations(home: Home): Promise<void> {
  for (;;) {
    const { from, upTo, copies } = await home.journal.unentered(BATCH);
    // To look at a few once more costs less than to write down that nothing is owed for them.
    if (upTo <= from || (copies.length === 0 && upTo - from < FEW)) return;
    const exchanges = new Map<MessageId, Message[]>();
    const people = new Map<AgentName, boolean>();
    const obligations: Obligation[] = [];
    for (const { copy, message, alone } of copies) {
      const root = rootOf(message);
      // About nearly all of them nothing was said yet.
      const exchange = alone ? [] : (exchanges.get(root) ?? (await home.journal.exchange(root, EXCHANGE)));
      exchanges.set(root, exchange);
      const person = people.get(copy.mailbox) ?? (await isPerson(home, copy.mailbox));
      people.set(copy.mailbox, person);
      const obligation = await obligationFor(home, copy, message, { exchange, person });
      if (obligation) obligations.push(obligation);
    }
    // If somebody was faster, theirs are the same: go on from where they are.
    await home.journal.enter(from, upTo, obligations);
  }
}

/** What is owed for one copy, with everything that was said about it so far; null if nothing is. */
export async function obligationFor(
  home: Home,
  copy: CopyRecord,
  message: Message,
  known?: { exchange: readonly Message[]; person: boolean },
): Promise<Obligation | null> {
  if (!isOwed(copy, message)) return null;
  const { mailbox, attention } = copy;
  const obligation = newObligation({
    message,
    mailbox,
    attention,
    isPerson: known?.person ?? (await isPerson(home, mailbox)),
  });
  const ended = endOf(obligation, copy);
  if (ended) return { ...obligation, due: null, ended };
  return told(home, obligation, message, known?.exchange ?? (await home.journal.exchange(rootOf(message), EXCHANGE)));
}

async function isPerson(home: Home, name: AgentName): Promise<boolean> {
  return (await home.directory.get(name))?.parley?.kind === 'human';
}

/**
 * A note to oneself is owed to nobody, and of an agent that keeps no policy only what says so itself is asked. What was taken from a
 * shared mailbox is owed by its taker.
 */
function isOwed({ mailbox, attention, settledBy }: CopyRecord, { from, parley }: Message): boolean {
  if ((settledBy?.['taker'] ?? mailbox) !== mailbox) return false;
  return parley?.obligation !== undefined || (from !== mailbox && attention.reason !== 'no_policy');
}

/** What was said in its exchange, in order: an answer of its reader, and reactions of anybody whom they concern. */
async function told(
  home: Home,
  obligation: Obligation,
  message: Message,
  exchange: readonly Message[],
): Promise<Obligation> {
  let now = obligation;
  for (const said of exchange) {
    if (now.ended) break;
    if (said.parley?.signal !== undefined) now = heard(now, message, said);
    else {
      const ended = await endBy(home, now, message, said);
      if (ended && ended !== 'waiting') now = { ...now, due: null, ended };
    }
  }
  return now;
}

/** The end that this makes of a duty, if it is its answer; `waiting` if that is still to be shown at a surface. */
async function endBy(
  home: Home,
  obligation: Obligation,
  message: Message,
  said: Message,
): Promise<NonNullable<Obligation['ended']> | 'waiting' | null> {
  if (obligation.kind !== 'reply' || !answerIn(message, obligation.mailbox, said)) return null;
  if (said.thread === undefined && !(await hadRead(home, obligation, said))) return null;
  const arrival = await arrivalOf(home, message.from, said);
  if (arrival === 'waiting') return arrival;
  if (arrival === 'withdrawn') return null;
  const via = said.thread === undefined ? { via: 'a plain send' } : {};
  const [at, by] = [Date.parse(said.ts), { reply: said.id, ...via }];
  if (arrival === 'arrived') return { as: 'responded', at, by };
  return { as: 'failed', at, by: { ...arrival.failed, ...by } };
}

/** Was the reader given the message before it said this? A plain send that crossed it on the way answers nothing. */
async function hadRead(home: Home, { id, mailbox }: Obligation, said: Message): Promise<boolean> {
  const copy = (await home.journal.trace(id))?.copies.find((one) => one.mailbox === mailbox);
  const times = (copy?.receipts ?? []).filter(({ step }) => READ.includes(step)).map(({ at }) => at);
  return [...times, ...(copy?.settledAt ? [copy.settledAt] : [])].some((at) => Date.parse(at) <= Date.parse(said.ts));
}

const READ: readonly string[] = ['offered', 'accepted', 'shown', 'knocked'];

/**
 * The state of a duty. It is ended now if it was answered or settled without that being noticed: by a plain send, which costs
 * nothing for it, or while it was being entered. `waiting`: its answer is given, and still to be shown at a surface.
 */
export async function obligationState(
  home: Home,
  obligation: Obligation,
  message: Message | null,
): Promise<'open' | 'waiting' | 'ended'> {
  if (!message) return 'open';
  const copy = await home.journal.copy(obligation.mailbox, obligation.id);
  const ended = (copy && endOf(obligation, copy)) ?? (await answerTo(home, obligation, message));
  if (ended === null) return 'open';
  if (ended === 'waiting') return ended;
  await discharge(home, obligation.mailbox, obligation.id, ended.as, ended.by, ended.at);
  return 'ended';
}

/** What the first answer to it makes of a duty. */
async function answerTo(home: Home, obligation: Obligation, message: Message): ReturnType<typeof endBy> {
  const exchange = obligation.kind === 'reply' ? await home.journal.exchange(rootOf(message), EXCHANGE) : [];
  for (const said of exchange) {
    const ended = await endBy(home, obligation, message, said);
    if (ended) return ended;
  }
  return null;
}

/** What a reaction says by itself. Where it takes more than that (to ask back, to tell another), it is due at once for anyone who keeps time. */
function heard(obligation: Obligation, message: Message, reaction: Message): Obligation {
  const { obligation: after, follow } = signalled(obligation, message, reaction);
  return follow === 'nothing' ? after : { ...obligation, due: Date.parse(reaction.ts) };
}

/**
 * What a reaction does to a duty, and what is to be done next. Only its reader, its author and its delegate can say anything about
 * it, and the last two only if they name whose duty they mean.
 */
export function signalled(obligation: Obligation, target: Message, reaction: Message): ReturnType<typeof onSignal> {
  const { signal = '', recipient } = reaction.parley ?? {};
  if (reaction.thread !== obligation.id || !isKnownSignal(signal)) return { obligation, follow: 'nothing' };
  const named = recipient === obligation.mailbox;
  const by = {
    isAuthor: named && reaction.from === target.from,
    isRecipient: reaction.from === obligation.mailbox,
    isDelegate: named && reaction.from === target.parley?.obligation?.delegate,
  };
  if (!by.isAuthor && !by.isRecipient && !by.isDelegate) return { obligation, follow: 'nothing' };
  const outcome = onSignal(obligation, signal, by, Date.parse(reaction.ts), target.parley?.intent ?? 'none');
  if (!outcome.obligation.ended || obligation.ended) return outcome;
  const evidence = { ...outcome.obligation.ended.by, signal, from: reaction.from, reaction: reaction.id };
  return { ...outcome, obligation: { ...outcome.obligation, ended: { ...outcome.obligation.ended, by: evidence } } };
}

/**
 * Ends what is owed as a reply, once. An obligation stays as it is, whatever its reader did: that is evidence only. Null if nothing
 * is owed for this copy.
 */
export async function endObligation(
  home: Home,
  mailbox: AgentName,
  id: MessageId,
  as: Disposition,
  by: Evidence,
  now: number,
): Promise<Obligation | null> {
  return end(home, mailbox, id, (obligation) => (obligation.kind === 'reply' ? { as, at: now, by } : null));
}

/** Ends a duty of either kind: its author or delegate says so, or has taken its message back. */
export async function discharge(
  home: Home,
  mailbox: AgentName,
  id: MessageId,
  as: Disposition,
  by: Evidence,
  now: number,
): Promise<Obligation | null> {
  return end(home, mailbox, id, () => ({ as, at: now, by }));
}

async function end(
  home: Home,
  mailbox: AgentName,
  id: MessageId,
  how: (obligation: Obligation) => NonNullable<Obligation['ended']> | null,
): Promise<Obligation | null> {
  if (!(await home.journal.obligation(mailbox, id))) await enterObligations(home);
  let ends = false;
  const obligation = await home.journal.changeObligation(mailbox, id, (open) => {
    const ended = open.ended ? null : how(open);
    ends = ended !== null;
    return ended && { ...open, due: null, ended };
  });
  if (obligation && ends) await afterEnd(home, obligation);
  return obligation;
}

/** What hangs on a duty goes with it: its claim, the notices about it, and a duty that waited for it. */
export async function afterEnd(home: Home, obligation: Obligation): Promise<void> {
  if (!obligation.ended) return;
  const { as, at, by } = obligation.ended;
  await home.journal.record(obligation.mailbox, obligation.id, receipt('discharged', at, { ...by, as }));
  await home.journal.freeClaim(obligation.id, obligation.mailbox);
  const message = await home.journal.message(obligation.id);
  if (message) await resume(home, message, at);
  if (message?.from === HOST_NAME && as === 'responded') await answerFor(home, message, obligation);
  if (obligation.returns > 0 || obligation.tier > 0) await closeNotices(home, obligation);
}

/** The author has said what was unclear: the duty that waited for it goes on from now. */
async function resume(home: Home, asked: Message, at: number): Promise<void> {
  const reader = AgentName.safeParse(asked.parley?.recipient ?? asked.from);
  if (asked.parley?.signal !== 'unclear' || asked.thread === undefined || !reader.success) return;
  await home.journal.changeObligation(reader.data, asked.thread as MessageId, (obligation) =>
    obligation.state === 'paused' ? { ...obligation, state: 'open', due: at } : null,
  );
}

/** Anyone who was told that no answer came has given one: it counts for the one who owed it. */
async function answerFor(home: Home, notice: Message, { mailbox, ended }: Obligation): Promise<void> {
  if (!ended) return;
  for (const ref of notice.refs ?? []) {
    const [id = '', owing = ''] = ref.split(':');
    const by = { ...ended.by, from: mailbox, notice: notice.id };
    await endObligation(home, owing as AgentName, id as MessageId, ended.as, by, ended.at);
  }
}

/** A notice is done with when everything that it is about is. */
async function closeNotices(home: Home, obligation: Obligation): Promise<void> {
  for (const { step, evidence } of await receiptsOf({ name: obligation.mailbox, home }, obligation.id)) {
    const { notice, to } = evidence;
    if (step !== 'escalated' || typeof notice !== 'string' || typeof to !== 'string') continue;
    const last = await lastNotice(home, to as AgentName, notice as MessageId);
    if (!last || (await someOpen(home, (await home.journal.message(last))?.refs ?? []))) continue;
    const at = obligation.ended?.at ?? obligation.at;
    await discharge(home, to as AgentName, last, 'superseded', { because: 'it was settled' }, at);
  }
}

/** A notice may have been replaced by one that says more. Null if the last is done with. */
async function lastNotice(home: Home, to: AgentName, notice: MessageId): Promise<MessageId | null> {
  for (let id: MessageId | null = notice; id;) {
    const obligation: Obligation | null = await home.journal.obligation(to, id);
    if (!obligation?.ended) return id;
    const { replaced } = obligation.ended.by;
    id = typeof replaced === 'string' ? (replaced as MessageId) : null;
  }
  return null;
}

async function someOpen(home: Home, refs: readonly string[]): Promise<boolean> {
  for (const ref of refs) if (await isOpen(home, ref)) return true;
  return false;
}

/** `<id>:<mailbox>`, as a notice names what it is about. */
async function isOpen(home: Home, ref: string): Promise<boolean> {
  const [id = '', mailbox = ''] = ref.split(':');
  const obligation = await home.journal.obligation(mailbox as AgentName, id as MessageId);
  return obligation !== null && obligation.ended === null;
}

/** The end of a copy, where it is the end of what is owed for it. To have seen it is not. */
function endOf(obligation: Obligation, copy: CopyRecord): Obligation['ended'] {
  if (copy.disposition === null || copy.settledAt === null) return null;
  const by = copy.settledBy ?? {};
  // Only its author takes an obligation back.
  if (obligation.kind === 'obligation' && !(copy.disposition === 'superseded' && by['by'] === obligation.from))
    return null;
  if (copy.disposition === 'acknowledged' && !isActed(by)) return null;
  return { as: copy.disposition, at: Date.parse(copy.settledAt), by };
}

/** Somebody said that it is done with, or a command did it: not a hook or a look that only showed it. */
function isActed(by: Evidence): boolean {
  return by['by'] === 'ack' || by['exit'] === 0 || by['signal'] !== undefined;
}

/** What asks for something itself is no answer, unless it says so. */
const ASKING: readonly string[] = ['question', 'assignment', 'approval', 'blocker'];

/**
 * Is this the answer of `reader` to `message`? Usually it says so. Agents also answer by a plain send to the writer: then its place
 * in the exchange, as we worked it out, is right behind.
 */
export function answerIn(message: Message, reader: AgentName, said: Message): boolean {
  if (said.from !== reader || said.parley?.signal !== undefined) return false;
  if (said.thread !== undefined) return said.thread === message.id;
  if (ASKING.includes(said.parley?.intent ?? 'none')) return false;
  const hop = said.parley?.lineage?.hop;
  return hop === (message.parley?.lineage?.hop ?? 0) + 1 && said.to.replace(/^@/, '') === message.from;
}

/**
 * A message that answers another ends what its writer owed for that, if it was entered before; otherwise entering finds the answer.
 * What is still to be shown at a surface ends it when it was. What else hangs on that duty is seen to by anyone who looks at it next.
 */
export async function noteAnswer(home: Home, answer: Message, now: number): Promise<void> {
  if (answer.thread === undefined || answer.parley?.signal !== undefined) return;
  const [mailbox, id] = [answer.from as AgentName, answer.thread as MessageId];
  const obligation = await home.journal.obligation(mailbox, id);
  if (!obligation || obligation.ended || obligation.kind === 'obligation') return;
  if ((await arrivalOf(home, obligation.from, answer)) === 'waiting') return;
  await endObligation(home, mailbox, id, 'responded', { reply: answer.id }, now);
}
