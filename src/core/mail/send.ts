import { receipt } from '../receipt.ts';
import { withoutStrangers, withoutOverhearers } from './route.ts';
import { arrivalOf, setAside } from './arrival.ts';
import { settleIfOpen } from './settle.ts';
import { parseAddress } from '../address.ts';
import { composeMessage } from '../message.ts';
import type { Draft, Message } from '../message.ts';
import type { MessageId, SendKey } from '../names.ts';
import { Refusal } from '../refusal.ts';
import { HOST_NAME } from '../signal.ts';
import { StorageFailure, storageTrouble } from '../disk.ts';
import type { AgentRecord } from '../ports/directory.ts';
import type { Acceptance, Copy } from '../ports/journal.ts';
import { attend, exchangeOf, NO_EXCHANGE } from './attend.ts';
import type { Workspace, Home, Who } from './workspace.ts';
import { route } from './route.ts';
import { asksToLeave } from '../attention/thanks.ts';
import { calledIn } from '../attention/text.ts';
import { AgentName } from '../names.ts';
import { rootOf } from './conversation.ts';
import { noteAnswer } from '../obligations/obligation.ts';
import { tellOwner } from '../obligations/owners.ts';
import { oneResponder, reserve } from '../obligations/responders.ts';

/** The result of a send. It proves that the message is stored in these mailboxes, and nothing more. */
export interface Sent {
  home: Home;
  message: Message;
  copies: Copy[];
  /** False if this key had been sent before: nothing was added. */
  first: boolean;
  /** The message as JSON, if the backend made it. */
  text?: string;
  /** Recipients whose mailbox is full. They get no copy. */
  leftOut?: AgentName[];
  /** What failed after the message was stored, in a few words. */
  trouble?: string;
}

/**
 * Step 1 of 5. Accepts a draft once per sender and key, decides who gets it and how they should see it, and leaves a copy in each of their
 * mailboxes. A retry gets the result of the first send, recipients included.
 */
export async function send(workspace: Workspace, from: AgentName, draft: Draft): Promise<Sent> {
  refuseTooLarge(draft.body, workspace.bodyLimit);
  const earlier = draft.key ? await underKey(workspace, from, draft, draft.key) : null;
  if (earlier) return earlier;
  const remote = relayHome(workspace, draft.to);
  if (remote) return postToRelay(remote, from, draft);
  const { home, to, via, recipients: meant } = await route(workspace, from, draft.to);
  const recipients = workspace.admit ? await workspace.admit(home, meant) : meant;
  const now = workspace.now();
  const [reader] = via === 'dm' ? recipients : [];
  const isAlone = draft.thread === undefined && recipients.every(({ parley }) => !parley);
  const exchange = isAlone
    ? NO_EXCHANGE
    : await exchangeOf(await whereKnown(workspace, home, draft.thread), from, draft, now, reader);
  const message = composeMessage(to === draft.to ? draft : { ...draft, to }, {
    id: workspace.newId(),
    from,
    ts: new Date(now).toISOString(),
    lineage: exchange.lineage,
  });
  const decided: Copy[] = [];
  for (const reader of via === 'channel' ? withoutStrangers(recipients, message) : recipients) {
    decided.push({ mailbox: reader.name, attention: await attend(home, message, reader, via, exchange, now) });
  }
  if (draft.obligation) refuseObligation(decided);
  const meantFor = via === 'channel' ? withoutOverhearers(decided) : decided;
  // A message for information only is not offered: every member of the role sees it, and none owes an answer.
  const isOffered = draft.intent !== 'fyi' && decided.some(({ attention }) => attention.reason === 'role_mention');
  const copies = isOffered ? await oneResponder(home, message, meantFor, now) : meantFor;
  const fresh = workspace.givenIds ? undefined : true;
  const stored = await home.mailboxes.put({ message, copies, key: draft.key, firstTried: draft.firstTried, fresh });
  const trouble = await troubleWith(async () => {
    if (stored.first) {
      if (isOffered) await reserve(home, message, copies, now);
      if (message.thread !== undefined) await noteAnswer(home, message, now);
      if (copies.some(({ attention }) => attention.reason === 'loop')) await tellOfLoop(workspace, home, message);
      if (via === 'channel' || message.thread !== undefined) await noteLeaving(home, message, recipients);
    }
    await home.directory.seen(from);
  });
  const sent = { ...stored, home, ...(trouble !== undefined && { trouble }) };
  if (recipients === meant) return sent;
  return { ...sent, leftOut: meant.filter((one) => !recipients.includes(one)).map(({ name }) => name) };
}

/** Runs the steps after a send. Returns what failed, or undefined; the message stays stored. */
async function troubleWith(act: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await act();
    return undefined;
  } catch (error) {
    const failure = storageTrouble(error);
    if (failure instanceof StorageFailure) return failure.what;
    return error instanceof Error ? error.message : String(error);
  }
}

/** The home that has the thread of a message. Usually it is the home of its recipients. */
async function whereKnown(workspace: Workspace, home: Home, thread: MessageId | undefined): Promise<Home> {
  if (thread === undefined || workspace.homes.length === 1 || (await home.journal.message(thread))) return home;
  for (const other of workspace.homes) if (other !== home && (await other.journal.message(thread))) return other;
  return home;
}

/** Tells the owner once that a guard holds back an exchange. spec: c2a#loops */
async function tellOfLoop(workspace: Workspace, home: Home, { from, to, parley, id }: Message): Promise<void> {
  const root = parley?.lineage?.root ?? id;
  const body =
    `@${from} and ${to} go in circles: they repeat themselves, or write at length and nothing checkable is said. Repetitions now ` +
    `wait quietly in the mailbox, other messages wake nobody and are shown with the reader's next own turn. A question, blocker, assignment ` +
    `or urgent message gets through. Read it: \`parley history --thread ${root.slice(0, 8)}\``;
  await tellOwner(workspace, home, { key: `loop/${root}`, body });
}

/** Notes which agents are asked to leave, or are called back by name. A quick test of the words skips most messages. */
async function noteLeaving(home: Home, message: Message, recipients: readonly AgentRecord[]): Promise<void> {
  const mayMean = /\b(?:leave|out|stop|quit|quiet|silent)\b/i.test(message.body);
  if (!mayMean && recipients.every(({ parley }) => !parley?.left?.length)) return;
  await leaveOrReturn(home, message, recipients);
}

/** An obligation needs exactly one agent, who must see it. spec: c2a#obligations */
function refuseObligation(copies: readonly Copy[]): void {
  const [only, ...others] = copies;
  if (!only || others.length > 0) {
    throw new Refusal(
      'invalid_request',
      'an obligation needs exactly one agent: send it to one by name, not to a role or channel',
    );
  }
  const { policy, injection } = only.attention;
  // An agent in a quiet time still owes the answer, and finds the message in its mailbox.
  if (policy === 'must_respond' && injection !== 'digest' && injection !== 'silent') return;
  throw new Refusal(
    'invalid_request',
    `@${only.mailbox} would not have to answer this (${only.attention.reason}), so it cannot be an obligation; leave out its intent, or ask for something`,
  );
}

/** The sender's own home, if it is at a relay and the address names no other home. The relay then decides who gets a copy. */
function relayHome(workspace: Workspace, to: string): Home | null {
  const [own] = workspace.homes;
  if (!own?.remote) return null;
  const { home = own.label } = (workspace.readAddress ?? parseAddress)(to);
  return home === own.label ? own : null;
}

async function postToRelay(home: Home, from: AgentName, draft: Draft): Promise<Sent> {
  if (!home.remote) throw new Error('this home is not at a relay');
  const to = draft.to.replace(`%${home.label}`, '');
  return { home, copies: [], ...(await home.remote.post(from, { ...draft, to })) };
}

/** Sends a reply to the sender of a message, in its thread, and settles the reader's own copy: the reply is the evidence. */
export async function answer(workspace: Workspace, who: Who, home: Home, id: MessageId, draft: Draft): Promise<Sent> {
  const message = await home.journal.message(id);
  if (!message) throw new Refusal('not_found', `no message has the id ${id}`);
  const to = await replyAddress(home, message);
  const sent = await send(workspace, who.name, { ...draft, to, thread: id });
  const trouble = await troubleWith(async () => endAnswered(workspace, who, home, message, sent));
  return trouble === undefined ? sent : { trouble, ...sent };
}

/** The address of an answer: the writer of the message, also if the message went to a channel or a role. */
export async function replyAddress(home: Home, message: Message): Promise<string> {
  // Only the relay knows its agents, and it may be unreachable now.
  const writer = await writerOf(home, message);
  const known = home.remote !== undefined || (await home.directory.get(writer as AgentName));
  // A writer from another home has no mailbox where the message was found: look everywhere.
  return known ? `@${writer}%${home.label}` : `@${writer}`;
}

/** Ends the reader's own copy with the answer as evidence. */
async function endAnswered(workspace: Workspace, who: Who, home: Home, message: Message, sent: Sent): Promise<void> {
  const { id } = message;
  if (sent.home !== home && sent.first) await noteAnswer(home, sent.message, workspace.now());
  const copy = await home.journal.copy(who.name, id);
  const evidence = { reply: sent.message.id };
  const isOpen = copy?.state === 'stored' || (copy?.state === 'held' && (copy.bearer || copy.owner === null));
  if (isOpen && (await arrivalOf(home, message.from, sent.message)) === 'waiting') {
    await setAside({ ...who, home }, id);
    return;
  }
  // Another session may have ended the copy first. The reply is stored either way, so this is no error.
  const as = copy?.attention.policy === 'ack_only' ? 'acknowledged' : 'responded';
  const ended = isOpen && (await settleIfOpen({ ...who, home }, id, as, evidence));
  // The copy had ended before. The answer is still recorded.
  if (copy && !ended && sent.first) {
    await home.journal.record(who.name, id, receipt('answered', workspace.now(), evidence));
  }
}

/** Who gets the answer. For a notice that Parley wrote, it is the author of the message that the notice is about. */
async function writerOf(home: Home, { from, thread }: Message): Promise<string> {
  if (from !== HOST_NAME || thread === undefined) return from;
  return (await home.journal.message(thread as MessageId))?.from ?? from;
}

/** The result of an earlier send under this key, or null. A retry keeps the recipients of the first send. */
async function underKey(workspace: Workspace, from: AgentName, draft: Draft, key: SendKey): Promise<Sent | null> {
  for (const home of workspace.homes) {
    const earlier: Acceptance | null = await home.journal.underKey(from, key);
    if (!earlier) continue;
    // The mailboxes refuse a different text under the same key, so pass the new text with the recipients of the first send.
    const { id } = earlier.message;
    const to = draft.to.replace(`%${home.label}`, '');
    const message = composeMessage({ ...draft, to }, { id, from, ts: new Date(workspace.now()).toISOString() });
    return { home, ...(await home.mailboxes.put({ message, copies: earlier.copies, key })) };
  }
  return null;
}

export function refuseTooLarge(body: string, limit: number): void {
  // A UTF-16 unit has at most three bytes in UTF-8, so most bodies need no counting.
  if (body.length * 3 <= limit) return;
  const size = Buffer.byteLength(body);
  if (size <= limit) return;
  throw new Refusal(
    'too_large',
    `the body has ${size} bytes, the limit is ${limit}; write it to a file and send its path instead`,
  );
}

/**
 * Notes which agents are asked to leave a channel or an exchange. Messages there then wait quietly for such an agent, until a message there
 * names it again. spec: c2a#leaving
 */
export async function leaveOrReturn(home: Home, message: Message, recipients: readonly AgentRecord[]): Promise<void> {
  const named = new Set<string>(calledIn(message));
  const isDm = !message.to.startsWith('#');
  const places = isDm ? [rootOf(message)] : [message.to, rootOf(message)];
  const leaves = asksToLeave(message.body) && (await mayAskToLeave(home, message));
  // In a channel thread, "leave" means the thread, unless the text names the channel.
  const place = message.thread !== undefined && !/channel|#/i.test(message.body) ? rootOf(message) : message.to;
  for (const { name, parley } of recipients) {
    if (!parley || parley.kind !== 'agent' || (!isDm && !named.has(name))) continue;
    if (leaves && (!isDm || message.thread !== undefined)) {
      const where = isDm ? rootOf(message) : place;
      await home.directory.amend(name, ({ left = [] }) => (left.includes(where) ? null : { left: [...left, where] }));
    } else if (named.has(name) && parley.left?.some((where) => places.includes(where))) {
      await home.directory.amend(name, ({ left = [] }) => leftPlaces(left.filter((where) => !places.includes(where))));
    }
  }
}

function leftPlaces(left: string[]): { left: string[] | undefined } {
  return { left: left.length > 0 ? left : undefined };
}

/**
 * Only a person, the author of the first message, or the owner of the place may ask an agent to leave. Otherwise any agent could silence the
 * others.
 */
async function mayAskToLeave(home: Home, message: Message): Promise<boolean> {
  const from = AgentName.safeParse(message.from);
  const parley = from.success ? (await home.directory.get(from.data))?.parley : undefined;
  if (parley?.kind === 'human') return true;
  const root = rootOf(message);
  if (parley?.owns?.some((what) => what === message.to || what === root)) return true;
  return message.thread !== undefined && (await home.journal.message(root))?.from === message.from;
}
