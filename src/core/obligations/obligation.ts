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

/** How many copies one transaction adds. */
const BATCH = 200;
/** Up to this many new messages without an obligation are checked again each time. */
const FEW = 100;
/** How many messages of a thread are read to find the state of one of them. */
const EXCHANGE = 1000;

/**
 * Adds a row for each message that must be answered and came since the last call. A row gets the state that its message has by now, so the
 * time of the call makes no difference, and a send need not do it.
 */
export async function enterObligations(home: Home): Promise<void> {
  for (;;) {
    const { from, upTo, copies } = await home.journal.unentered(BATCH);
    // Checking a few again costs less than writing down that nothing is owed for them.
    if (upTo <= from || (copies.length === 0 && upTo - from < FEW)) return;
    const exchanges = new Map<MessageId, Message[]>();
    const people = new Map<AgentName, boolean>();
    const obligations: Obligation[] = [];
    for (const { copy, message, alone } of copies) {
      const root = rootOf(message);
      // Most messages have no answer yet, so their exchange is not read.
      const exchange = alone ? [] : (exchanges.get(root) ?? (await home.journal.exchange(root, EXCHANGE)));
      exchanges.set(root, exchange);
      const person = people.get(copy.mailbox) ?? (await isPerson(home, copy.mailbox));
      people.set(copy.mailbox, person);
      const obligation = await obligationFor(home, copy, message, { exchange, person });
      if (obligation) obligations.push(obligation);
    }
    // Another process may have added the same rows. Continue after them.
    await home.journal.enter(from, upTo, obligations);
  }
}

/** The obligation of one copy, with all answers and reactions so far. Null if nothing is owed. */
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
  const exchange = known?.exchange ?? (await home.journal.exchange(rootOf(message), EXCHANGE));
  return afterExchange(home, obligation, message, exchange);
}

async function isPerson(home: Home, name: AgentName): Promise<boolean> {
  return (await home.directory.get(name))?.parley?.kind === 'human';
}

/**
 * Does the reader of this copy owe anything? A message to oneself needs no answer. An agent without a policy owes only what the message itself
 * declares. For a copy that was taken from a shared mailbox, only its taker owes.
 */
function isOwed({ mailbox, attention, settledBy }: CopyRecord, { from, parley }: Message): boolean {
  if ((settledBy?.['taker'] ?? mailbox) !== mailbox) return false;
  return parley?.obligation !== undefined || (from !== mailbox && attention.reason !== 'no_policy');
}

/** The obligation after the answers and reactions in its thread, in order. */
async function afterExchange(
  home: Home,
  obligation: Obligation,
  message: Message,
  exchange: readonly Message[],
): Promise<Obligation> {
  let now = obligation;
  for (const said of exchange) {
    if (now.ended) break;
    if (said.parley?.signal !== undefined) now = afterReaction(now, message, said);
    else {
      const ended = await endBy(home, now, message, said);
      if (ended && ended !== 'waiting') now = { ...now, due: null, ended };
    }
  }
  return now;
}

/** How a message ends an obligation if it is the answer; `waiting` if a chat must still show it. Null if it is not the answer. */
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

/** Had the reader seen the message when it wrote `said`? If the two messages crossed, `said` is not an answer. */
async function hadRead(home: Home, { id, mailbox }: Obligation, said: Message): Promise<boolean> {
  const copy = (await home.journal.trace(id))?.copies.find((one) => one.mailbox === mailbox);
  const times = (copy?.receipts ?? []).filter(({ step }) => READ.includes(step)).map(({ at }) => at);
  return [...times, ...(copy?.settledAt ? [copy.settledAt] : [])].some((at) => Date.parse(at) <= Date.parse(said.ts));
}

const READ: readonly string[] = ['offered', 'accepted', 'shown', 'knocked'];

/**
 * The state of an obligation. Ends it if an answer arrived that did not end it yet: a plain send, or an answer while the row was being
 * added. `waiting`: a chat must still show the answer.
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

/** How the first answer ends an obligation. */
async function answerTo(home: Home, obligation: Obligation, message: Message): ReturnType<typeof endBy> {
  const exchange = obligation.kind === 'reply' ? await home.journal.exchange(rootOf(message), EXCHANGE) : [];
  for (const said of exchange) {
    const ended = await endBy(home, obligation, message, said);
    if (ended) return ended;
  }
  return null;
}

/**
 * Applies a reaction to a row that is being added. If more must follow (a question back, a notice), the row is due now, and the host does the
 * rest.
 */
function afterReaction(obligation: Obligation, message: Message, reaction: Message): Obligation {
  const { obligation: after, follow } = signalled(obligation, message, reaction);
  return follow === 'nothing' ? after : { ...obligation, due: Date.parse(reaction.ts) };
}

/**
 * What a reaction does to an obligation, and what must follow. Only the reader, the author and the delegate count, and the last two only if
 * they name whose obligation they mean.
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
 * Ends an owed reply, once. A row of kind `obligation` stays open, because only its author or delegate can discharge it. Null if nothing is
 * owed for this copy.
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

/** Ends a row of either kind, because its author or delegate says so or the author withdrew the message. */
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

/** After the end of an obligation: frees its claim, resumes an obligation that was paused for it, and closes its notices. */
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

/** If the ended obligation was a question back, the obligation that it paused continues from now. */
async function resume(home: Home, asked: Message, at: number): Promise<void> {
  const reader = AgentName.safeParse(asked.parley?.recipient ?? asked.from);
  if (asked.parley?.signal !== 'unclear' || asked.thread === undefined || !reader.success) return;
  await home.journal.changeObligation(reader.data, asked.thread as MessageId, (obligation) =>
    obligation.state === 'paused' ? { ...obligation, state: 'open', due: at } : null,
  );
}

/** The answer of an escalation's recipient counts for the agents that owed the answers. */
async function answerFor(home: Home, notice: Message, { mailbox, ended }: Obligation): Promise<void> {
  if (!ended) return;
  for (const ref of notice.refs ?? []) {
    const [id = '', owing = ''] = ref.split(':');
    const by = { ...ended.by, from: mailbox, notice: notice.id };
    await endObligation(home, owing as AgentName, id as MessageId, ended.as, by, ended.at);
  }
}

/** Ends a notice when everything in it has ended. */
async function closeNotices(home: Home, obligation: Obligation): Promise<void> {
  for (const { step, evidence } of await receiptsOf({ name: obligation.mailbox, home }, obligation.id)) {
    const { notice, to } = evidence;
    if (step !== 'escalated' || typeof notice !== 'string' || typeof to !== 'string') continue;
    const last = await lastNotice(home, to as AgentName, notice as MessageId);
    if (!last || (await isAnyOpen(home, (await home.journal.message(last))?.refs ?? []))) continue;
    const at = obligation.ended?.at ?? obligation.at;
    await discharge(home, to as AgentName, last, 'superseded', { because: 'it was settled' }, at);
  }
}

/** The newest version of a notice. Null if it has ended. */
async function lastNotice(home: Home, to: AgentName, notice: MessageId): Promise<MessageId | null> {
  for (let id: MessageId | null = notice; id;) {
    const obligation: Obligation | null = await home.journal.obligation(to, id);
    if (!obligation?.ended) return id;
    const { replaced } = obligation.ended.by;
    id = typeof replaced === 'string' ? (replaced as MessageId) : null;
  }
  return null;
}

async function isAnyOpen(home: Home, refs: readonly string[]): Promise<boolean> {
  for (const ref of refs) if (await isOpen(home, ref)) return true;
  return false;
}

/** Is the obligation open that a notice refers to? `ref` is `<id>:<mailbox>`. */
async function isOpen(home: Home, ref: string): Promise<boolean> {
  const [id = '', mailbox = ''] = ref.split(':');
  const obligation = await home.journal.obligation(mailbox as AgentName, id as MessageId);
  return obligation !== null && obligation.ended === null;
}

/** The end of a copy, if it also ends the obligation. Being shown does not. */
function endOf(obligation: Obligation, copy: CopyRecord): Obligation['ended'] {
  if (copy.disposition === null || copy.settledAt === null) return null;
  const by = copy.settledBy ?? {};
  // A row of kind `obligation` ends with its copy only if the author withdrew the message.
  if (obligation.kind === 'obligation' && !(copy.disposition === 'superseded' && by['by'] === obligation.from))
    return null;
  if (copy.disposition === 'acknowledged' && !isActOfReader(by)) return null;
  return { as: copy.disposition, at: Date.parse(copy.settledAt), by };
}

/** Did an agent or a command end the copy, and not a hook that only showed it? */
function isActOfReader(by: Evidence): boolean {
  return by['by'] === 'ack' || by['exit'] === 0 || by['signal'] !== undefined;
}

/** A plain send with one of these intents asks for something, so it is not an answer. */
const ASKING: readonly string[] = ['question', 'assignment', 'approval', 'blocker'];

/**
 * Is `said` the answer of `reader` to `message`? Usually its thread names the message. An agent may also answer by a plain send to the author;
 * then its lineage is one hop after the message.
 */
export function answerIn(message: Message, reader: AgentName, said: Message): boolean {
  if (said.from !== reader || said.parley?.signal !== undefined) return false;
  if (said.thread !== undefined) return said.thread === message.id;
  if (ASKING.includes(said.parley?.intent ?? 'none')) return false;
  const hop = said.parley?.lineage?.hop;
  return hop === (message.parley?.lineage?.hop ?? 0) + 1 && said.to.replace(/^@/, '') === message.from;
}

/**
 * Ends the reply that the author of an answer owed, if that row exists. Otherwise the row is added later, already ended. If a chat must still
 * show the answer, the row ends after that.
 */
export async function noteAnswer(home: Home, answer: Message, now: number): Promise<void> {
  if (answer.thread === undefined || answer.parley?.signal !== undefined) return;
  const [mailbox, id] = [answer.from as AgentName, answer.thread as MessageId];
  const obligation = await home.journal.obligation(mailbox, id);
  if (!obligation || obligation.ended || obligation.kind === 'obligation') return;
  if ((await arrivalOf(home, obligation.from, answer)) === 'waiting') return;
  await endObligation(home, mailbox, id, 'responded', { reply: answer.id }, now);
}
