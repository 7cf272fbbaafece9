import { receiptsOf } from '../mail/workspace.ts';
import { receipt } from '../receipt.ts';
import { RELAY_NAME, HOST_NAME } from '../signal.ts';
import { readMessage } from '../message.ts';
import type { Message } from '../message.ts';
import { SendKey } from '../names.ts';
import type { AgentName } from '../names.ts';
import { Refusal } from '../refusal.ts';
import { LEASE_MS, WaitingPages } from '../mail/deliver.ts';
import type { Workspace, Who, Home } from '../mail/workspace.ts';
import { send } from '../mail/send.ts';
import { step, stepIfLate } from './rules.ts';
import type { ObligationStep, Obligation } from './rules.ts';
import type { CopyRecord } from '../ports/journal.ts';
import { afterEnd, endObligation, enterObligations, obligationState } from './obligation.ts';
import { isAgent, isQuietAt } from '../mail/attend.ts';
import { escalate } from './escalate.ts';
import { isOffer } from './owed.ts';
import { sendKeyOf, post, sendHeld } from './owners.ts';
import { applyLate } from './react.ts';
import { isOffered, passOn } from './responders.ts';

/** How many messages a notice lists; it counts the rest. */
const NAMED = 20;

/**
 * Ends the copies that arrived before `before` (ms) and were not taken, and notifies their senders in this home. A copy ends as failed, and
 * only after its notice was sent under a key, so a crash in between repeats nothing. Returns how many copies ended.
 */
export async function expire(workspace: Workspace, reader: Who, before: number): Promise<number> {
  const pages = new WaitingPages(reader);
  let ended = 0;
  while (!pages.isRead) {
    const page = (await pages.next()).map(({ text }) => readMessage(JSON.parse(text))).filter((one) => one !== null);
    const old: Message[] = [];
    for (const message of page) {
      // The page is in order of arrival: after a young message there is no old one.
      if ((await arrivedAt(reader, message)) >= before) break;
      old.push(message);
    }
    if (old.length > 0) ended += await endAll(workspace, reader, old);
    if (old.length < page.length) break;
  }
  return ended;
}

async function endAll(workspace: Workspace, reader: Who, old: Message[]): Promise<number> {
  const { mailboxes } = reader.home;
  const claim = await mailboxes.claim(
    reader.name,
    old.map(({ id }) => id),
    { ms: LEASE_MS },
  );
  const taken = claim.copies.map(({ message }) => message);
  const held = taken.map(({ id }) => id);
  if (held.length === 0) return 0;
  try {
    for (const [from, messages] of Map.groupBy(taken, (message) => message.from)) {
      if (from !== RELAY_NAME) await notifySender(workspace, from, reader.name, messages);
    }
  } catch (error) {
    await mailboxes.release(claim, held, { because: 'its sender could not be told' });
    throw error;
  }
  const done = await mailboxes.settle(claim, held, { disposition: 'failed', by: { expired: true, by: RELAY_NAME } });
  return done ? held.length : 0;
}

async function notifySender(workspace: Workspace, from: string, reader: AgentName, messages: Message[]): Promise<void> {
  const [first] = messages;
  if (!first) return;
  const ids = messages.slice(0, NAMED).map(({ id }) => id.slice(0, 8));
  const more = messages.length > NAMED ? `, and ${messages.length - NAMED} more` : '';
  const what = messages.length === 1 ? 'your message' : `${messages.length} messages of yours`;
  const body = `${what} to @${reader} expired unread (sent ${first.ts}): ${ids.join(', ')}${more}`;
  try {
    await send(workspace, RELAY_NAME, {
      to: `@${from}`,
      body,
      priority: 'normal',
      intent: 'status',
      key: SendKey.parse(`expired/${reader}/${first.id}`.slice(0, 200)),
      ...(messages.length === 1 && { thread: first.id }),
    });
  } catch (error) {
    // The sender is gone, has no room, or was notified before. The copies still end.
    if (!(error instanceof Refusal)) throw error;
  }
}

/** The time of arrival by our own clock. Another program's message may contain any time, so the time at which we found its file counts. */
async function arrivedAt(reader: Who, message: Message): Promise<number> {
  const found = (await receiptsOf(reader, message.id)).find(({ step }) => step === 'stored');
  return Date.parse(found?.at ?? message.ts);
}

/** How many rows one query reads. */
const BATCH = 100;
/** When an unfinished step is tried again. */
const SOON_MS = 60_000;
/** How many characters of a message its reminder quotes. */
const TEXT_SHOWN = 2000;

/** The acts that only a host can do. */
export interface Acts {
  /** Offers the message to its reader again. False if no harness can show it now. */
  redeliver(obligation: Obligation): Promise<boolean>;
}

/**
 * Does what is due in one home: reminders, escalations, failures, and offers to the next agent. Each step changes the row first, so only
 * one of several processes acts, and a second call does nothing. A reminder or escalation is counted after it was sent; after a crash in
 * between it is due again soon. Returns when to call again.
 */
export async function tick(workspace: Workspace, home: Home, now: number, act: Acts): Promise<number | null> {
  await enterObligations(home);
  await sendHeld(workspace, home);
  const toEscalate: Obligation[] = [];
  for (;;) {
    const due = await home.journal.dueObligations(now, BATCH);
    let changed = 0;
    for (const obligation of due) if (await doStep(workspace, home, obligation, now, act, toEscalate)) changed += 1;
    // If no row changed, the next query would find the same rows.
    if (due.length < BATCH || changed === 0) break;
  }
  // All together, so that each recipient gets one notice.
  await escalate(workspace, home, toEscalate);
  for (const obligation of toEscalate) await afterEscalation(workspace, home, obligation, now);
  return home.journal.nextDue();
}

/**
 * The tick without a host: escalates each message once that an agent was shown and did not answer in time. There are no reminders, and
 * nothing fails. `isWorkedOn`: the turn that the message began has not ended.
 */
export async function raiseLate(
  workspace: Workspace,
  home: Home,
  now: number,
  isWorkedOn: (obligation: Obligation) => boolean,
): Promise<void> {
  await enterObligations(home);
  const toEscalate: Obligation[] = [];
  for (const { name, parley } of await home.directory.list()) {
    if (parley?.kind !== 'agent') continue;
    for (const obligation of await lateOf(home, name, now)) {
      if (isWorkedOn(obligation)) continue;
      const done = await takeStep(home, obligation, now, stepIfLate);
      if (done.do === 'escalate') toEscalate.push(done.obligation);
    }
  }
  await escalate(workspace, home, toEscalate);
  for (const obligation of toEscalate) await afterEscalation(workspace, home, obligation, now);
}

/** The obligations for messages that this agent was shown and has not answered in time. */
async function lateOf(home: Home, name: AgentName, now: number): Promise<Obligation[]> {
  const late: Obligation[] = [];
  for (let after: Obligation | undefined, isRead = false; !isRead;) {
    const page = await home.journal.owed(name, { after, limit: BATCH });
    // For most rows the row alone decides: it is not late, or too old.
    for (const obligation of page.filter((one) => stepIfLate(one, now).do === 'escalate')) {
      const copy = await home.journal.copy(name, obligation.id);
      if (copy?.state !== 'settled' || isOffer(obligation, copy)) continue;
      const message = await home.journal.message(obligation.id);
      if ((await obligationState(home, obligation, message)) !== 'ended') late.push(obligation);
    }
    after = page.at(-1);
    isRead = page.length < BATCH;
  }
  return late;
}

/** Does the due step of one row. Adds rows to escalate to `toEscalate`. False if there was nothing to do, or another process did it. */
async function doStep(
  workspace: Workspace,
  home: Home,
  obligation: Obligation,
  now: number,
  act: Acts,
  toEscalate: Obligation[],
): Promise<boolean> {
  const message = await home.journal.message(obligation.id);
  const copy = await home.journal.copy(obligation.mailbox, obligation.id);
  const state = await obligationState(home, obligation, message);
  if (state === 'ended') return true;
  if (state === 'waiting') return postpone(home, obligation, now);
  if (copy && isOffered(copy) && (obligation.state === 'open' || obligation.state === 'claimed')) {
    return endOffer(workspace, home, obligation, message, now);
  }
  if (message && (await applyLate(workspace, home, obligation, message))) return true;
  const done = await takeStep(home, obligation, now);
  if (done.do === 'return') {
    await remind(workspace, home, done.obligation, message, copy, act);
    const { state, returns, due } = done.obligation;
    await home.journal.changeObligation(obligation.mailbox, obligation.id, (open) =>
      isUntouched(open, now) ? { ...open, state, returns, due } : { ...open, returns },
    );
  }
  if (done.do === 'escalate') toEscalate.push(done.obligation);
  if (done.do === 'expire') await afterEnd(home, done.obligation);
  return done.do !== 'nothing';
}

/** The reader has answered, but a chat must still show the answer. Until then there are no reminders and no escalation. */
async function postpone(home: Home, { mailbox, id }: Obligation, now: number): Promise<true> {
  await home.journal.changeObligation(mailbox, id, (open) => ({ ...open, due: now + open.every }));
  return true;
}

/** Takes the due step; only one process can. Sending a notice may fail, so the row is due again soon until the notice is sent. */
async function takeStep(home: Home, { mailbox, id }: Obligation, now: number, next = step): Promise<ObligationStep> {
  let done: ObligationStep | undefined;
  await home.journal.changeObligation(mailbox, id, (open) => {
    done = next(open, now);
    if (done.do === 'nothing') return null;
    return done.do === 'expire' ? done.obligation : { ...open, due: now + SOON_MS };
  });
  return done ?? { do: 'nothing', obligation: { mailbox, id } as Obligation };
}

/** Is the row still as `takeStep` left it, because its reader has neither claimed nor deferred it? */
function isUntouched({ due }: Obligation, now: number): boolean {
  return due === now + SOON_MS;
}

/** After an escalation: updates the row, and lets its reader still answer, after it has read the thread. */
async function afterEscalation(
  workspace: Workspace,
  home: Home,
  { mailbox, id, kind, state, tier, due }: Obligation,
  now: number,
): Promise<void> {
  await home.journal.changeObligation(mailbox, id, (open) =>
    isUntouched(open, now) ? { ...open, state, tier, due } : { ...open, tier },
  );
  const copy = await home.journal.copy(mailbox, id);
  if (copy?.attention.policy !== 'must_respond' || kind !== 'reply') return;
  await home.journal.reconsider(mailbox, id, { ...copy.attention, policy: 'may_respond' });
  const evidence = { policy: 'may_respond', because: 'its deadline has passed' };
  await home.journal.record(mailbox, id, receipt('reconsidered', workspace.now(), evidence));
}

/** Ends an offer that the chosen agent did not take, or whose claim ended, and asks the next agent. */
async function endOffer(
  workspace: Workspace,
  home: Home,
  obligation: Obligation,
  message: Message | null,
  now: number,
): Promise<boolean> {
  const claim = await home.journal.eventClaim(obligation.id, now);
  if (claim?.holder === obligation.mailbox && claim.until > now) {
    await home.journal.changeObligation(obligation.mailbox, obligation.id, (open) => ({ ...open, due: claim.until }));
    return true;
  }
  const as = obligation.state === 'open' ? 'ignored' : 'failed';
  await endObligation(home, obligation.mailbox, obligation.id, as, { because: 'nothing was heard in time' }, now);
  if (message) await passOn(workspace, home, message, now);
  return true;
}

/** Is the reader in a quiet time? Quiet times hold for reminders too, except for urgent mail of a person. spec: c2a#quiet-times */
async function wantsQuiet(home: Home, { mailbox }: Obligation, message: Message | null, now: number): Promise<boolean> {
  const quiet = (await home.directory.get(mailbox))?.parley?.quiet;
  if (!quiet || !(await isQuietAt(quiet, now))) return false;
  return message?.priority !== 'urgent' || (await isAgent(home, message.from));
}

/**
 * Reminds the reader: a host offers the message again; else a waiting copy is raised; else a knock points to the message that was shown
 * before.
 */
async function remind(
  workspace: Workspace,
  home: Home,
  obligation: Obligation,
  message: Message | null,
  copy: CopyRecord | null,
  act: Acts,
): Promise<void> {
  const { mailbox, id, returns } = obligation;
  const now = workspace.now();
  if (await wantsQuiet(home, obligation, message, now)) {
    const because = 'its reader wants quiet: nothing was shown';
    await home.journal.record(mailbox, id, receipt('reconsidered', now, { because, returns }));
    return;
  }
  await home.journal.record(mailbox, id, receipt('knocked', now, { because: 'it is still owed', returns }));
  if (await act.redeliver(obligation)) return;
  if (copy?.state === 'stored') {
    await home.mailboxes.raise(obligation.mailbox, obligation.id);
    return;
  }
  if (copy?.state === 'held' || !message || message.from === HOST_NAME) return;
  const asked = obligation.kind === 'obligation' ? 'stands still until this is done' : 'waits for an answer';
  const short = obligation.id.slice(0, 8);
  const text = message.body.length > TEXT_SHOWN ? `${message.body.slice(0, TEXT_SHOWN)}…` : message.body;
  await post(
    workspace,
    home,
    {
      to: `@${obligation.mailbox}`,
      body: `@${obligation.from} ${asked}: message ${short}. Answer with \`parley reply ${short} "…"\`. It said:\n\n${text}`,
      key: sendKeyOf(`return/${obligation.mailbox}/${obligation.id}/${obligation.returns}`),
      thread: obligation.id,
    },
    obligation.mailbox,
    {
      directedness: 'to_me',
      policy: 'may_respond',
      injection: 'notify',
      reason: copy?.attention.reason ?? 'direct_message',
    },
  );
}
