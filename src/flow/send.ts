import { composeMessage } from '../protocol/message.ts';
import type { Draft, Message } from '../protocol/message.ts';
import type { AgentName, MessageId } from '../protocol/names.ts';
import type { Evidence } from '../protocol/receipt.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { Acceptance, Copy } from '../storage/ledger/ledger.ts';
import { attend, lineageOf } from './attend.ts';
import type { Desk, Home, Who } from './desk.ts';
import { route } from './route.ts';
import { settle } from './settle.ts';

/** What a send may claim: the message is stored, durably, in these mailboxes. Nothing more. */
export interface Sent {
  home: Home;
  message: Message;
  copies: Copy[];
  /** False if this key had been sent before: nothing was added. */
  first: boolean;
}

/**
 * Step 1 of 5. Accepts a draft once per sender and key, decides who gets it and how they should see it, and leaves a copy in
 * each of their mailboxes. A retry gets the first answer, recipients included.
 */
export async function send(desk: Desk, from: AgentName, draft: Draft): Promise<Sent> {
  refuseTooLarge(draft.body, desk.bodyLimit);
  const earlier = await underKey(desk, from, draft);
  if (earlier) return earlier;
  const { home, to, via, recipients } = await route(desk, from, draft.to);
  const exchange = await lineageOf(home, draft);
  const message = composeMessage(
    { ...draft, to },
    { id: desk.newId(), from, ts: new Date(desk.now()).toISOString(), lineage: exchange.lineage },
  );
  const copies: Copy[] = [];
  for (const mailbox of recipients) {
    copies.push({ mailbox, attention: await attend(home, message, mailbox, via, exchange) });
  }
  const stored = await home.spool.put({ message, copies, key: draft.key, firstTried: draft.firstTried });
  await home.directory.seen(from);
  return { home, ...stored };
}

/** Sends a reply to whoever wrote a message, in its thread, and settles the reader's own copy: the reply is the evidence. */
export async function answer(desk: Desk, who: Who, home: Home, id: MessageId, draft: Draft): Promise<Sent> {
  const message = await home.ledger.message(id);
  if (!message) throw new Refusal('not_found', `no message has the id ${id}`);
  const known = await home.directory.get(message.from as AgentName);
  // A writer from another home has no mailbox where the message was found: look everywhere.
  const to = known ? `@${message.from}%${home.label}` : `@${message.from}`;
  const sent = await send(desk, who.name, { ...draft, to, thread: id });
  const copy = await home.ledger.copy(who.name, id);
  const evidence = { reply: sent.message.id };
  const isOpen = copy?.state === 'stored' || (copy?.state === 'held' && (copy.bearer || copy.owner === null));
  const ended = isOpen && (await settledBy(who, home, id, evidence));
  // Somebody else ended it, or a hook or a take before: the answer is still worth knowing.
  if (copy && !ended && sent.first) {
    await home.ledger.record(who.name, id, { step: 'answered', at: new Date(desk.now()).toISOString(), evidence });
  }
  return sent;
}

/** False if another session was faster. The reply is stored either way, so this is no failure of it. */
async function settledBy(who: Who, home: Home, id: MessageId, evidence: Evidence): Promise<boolean> {
  try {
    await settle({ ...who, home }, id, 'responded', evidence);
    return true;
  } catch (error) {
    if (error instanceof Refusal && error.code === 'already_claimed') return false;
    throw error;
  }
}

/** The recipients are decided once per key: a retry is answered from where the first try was stored. */
async function underKey(desk: Desk, from: AgentName, draft: Draft): Promise<Sent | null> {
  if (!draft.key) return null;
  for (const home of desk.homes) {
    const earlier: Acceptance | null = await home.ledger.underKey(from, draft.key);
    if (!earlier) continue;
    // The spool refuses another text under the key; what we bring is our own words and the first time's recipients.
    const message = { ...earlier.message, body: draft.body, to: draft.to.replace(`%${home.label}`, '') };
    if (draft.thread) message.thread = draft.thread;
    if (draft.scope) message.scope = draft.scope;
    return { home, ...(await home.spool.put({ message, copies: earlier.copies, key: draft.key })) };
  }
  return null;
}

function refuseTooLarge(body: string, limit: number): void {
  const size = Buffer.byteLength(body);
  if (size <= limit) return;
  throw new Refusal(
    'too_large',
    `the body has ${size} bytes, the limit is ${limit}; write it to a file and send its path with --ref`,
  );
}
