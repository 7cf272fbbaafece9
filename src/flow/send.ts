import { parseAddress } from '../protocol/address.ts';
import { composeMessage } from '../protocol/message.ts';
import type { Draft, Message } from '../protocol/message.ts';
import type { AgentName, MessageId } from '../protocol/names.ts';
import type { Evidence } from '../protocol/receipt.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { Acceptance, Copy } from '../storage/ledger/ledger.ts';
import { attend, exchangeOf } from './attend.ts';
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
  /** Whose mailbox has no room for more: they get no copy. */
  leftOut?: AgentName[];
}

/**
 * Step 1 of 5. Accepts a draft once per sender and key, decides who gets it and how they should see it, and leaves a copy in
 * each of their mailboxes. A retry gets the first answer, recipients included.
 */
export async function send(desk: Desk, from: AgentName, draft: Draft): Promise<Sent> {
  refuseTooLarge(draft.body, desk.bodyLimit);
  const earlier = await underKey(desk, from, draft);
  if (earlier) return earlier;
  const far = farHome(desk, draft.to);
  if (far) return posted(far, from, draft);
  const { home, to, via, recipients: meant } = await route(desk, from, draft.to);
  const recipients = (await desk.admit?.(home, meant)) ?? meant;
  const now = desk.now();
  const [reader] = via === 'dm' ? recipients : [];
  const exchange = await exchangeOf(home, from, draft, reader && { reader, now });
  const message = composeMessage(
    { ...draft, to },
    { id: desk.newId(), from, ts: new Date(now).toISOString(), lineage: exchange.lineage },
  );
  const copies: Copy[] = [];
  for (const reader of recipients) {
    copies.push({ mailbox: reader.name, attention: await attend(home, message, reader, via, exchange) });
  }
  const stored = await home.spool.put({ message, copies, key: draft.key, firstTried: draft.firstTried });
  await home.directory.seen(from);
  if (recipients === meant) return { home, ...stored };
  return { home, ...stored, leftOut: meant.filter((one) => !recipients.includes(one)).map(({ name }) => name) };
}

/** One's own home, if it is far away and the address names no other. There the other side decides who gets a copy. */
function farHome(desk: Desk, to: string): Home | null {
  const [own] = desk.homes;
  if (!own?.far) return null;
  const { home = own.label } = (desk.readAddress ?? parseAddress)(to);
  return home === own.label ? own : null;
}

async function posted(home: Home, from: AgentName, draft: Draft): Promise<Sent> {
  if (!home.far) throw new Error('a home that is near');
  const to = draft.to.replace(`%${home.label}`, '');
  return { home, copies: [], ...(await home.far.post(from, { ...draft, to })) };
}

/** Sends a reply to whoever wrote a message, in its thread, and settles the reader's own copy: the reply is the evidence. */
export async function answer(desk: Desk, who: Who, home: Home, id: MessageId, draft: Draft): Promise<Sent> {
  const message = await home.ledger.message(id);
  if (!message) throw new Refusal('not_found', `no message has the id ${id}`);
  // Whether a relay knows it, the relay will say; it may be away now.
  const known = home.far !== undefined || (await home.directory.get(message.from as AgentName));
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
    // The spool refuses whatever is said otherwise under the key; what we bring is our own words and the first time's recipients.
    const { id } = earlier.message;
    const to = draft.to.replace(`%${home.label}`, '');
    const message = composeMessage({ ...draft, to }, { id, from, ts: new Date(desk.now()).toISOString() });
    return { home, ...(await home.spool.put({ message, copies: earlier.copies, key: draft.key })) };
  }
  return null;
}

function refuseTooLarge(body: string, limit: number): void {
  // A character has three bytes at most: nearly every body is small enough without counting them.
  if (body.length * 3 <= limit) return;
  const size = Buffer.byteLength(body);
  if (size <= limit) return;
  throw new Refusal(
    'too_large',
    `the body has ${size} bytes, the limit is ${limit}; write it to a file and send its path with --ref`,
  );
}
