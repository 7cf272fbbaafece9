import { RELAY_NAME } from '../protocol/signal.ts';
import { readMessage } from '../protocol/message.ts';
import type { Message } from '../protocol/message.ts';
import { SendKey } from '../protocol/names.ts';
import type { AgentName } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import { LEASE_MS } from './deliver.ts';
import type { Workspace, Who } from './workspace.ts';
import { send } from './send.ts';
import { Shelf } from './shelf.ts';

/** A notice names this many messages, and counts the rest. */
const NAMED = 20;

/**
 * Ends what nobody has taken since `before` (ms), and tells its senders. Only what is in our own hand is told of: a reader may
 * take one at the last moment. A copy ends as failed, never in silence: the notice goes out before it ends, under a key, so a
 * crash in between repeats neither. Returns how many ended.
 */
export async function expire(workspace: Workspace, reader: Who, before: number): Promise<number> {
  const shelf = new Shelf(reader);
  let ended = 0;
  while (!shelf.isRead) {
    const page = (await shelf.next()).map(({ text }) => readMessage(JSON.parse(text))).filter((one) => one !== null);
    const old: Message[] = [];
    for (const message of page) {
      // They stand in order of arrival: behind a young one there is nothing old.
      if ((await arrivedAt(reader, message)) >= before) break;
      old.push(message);
    }
    if (old.length > 0) ended += await endAll(workspace, reader, old);
    if (old.length < page.length) break;
  }
  return ended;
}

async function endAll(workspace: Workspace, reader: Who, old: Message[]): Promise<number> {
  const { spool } = reader.home;
  const claim = await spool.claim(
    reader.name,
    old.map(({ id }) => id),
    { ms: LEASE_MS },
  );
  const taken = claim.copies.map(({ message }) => message);
  const held = taken.map(({ id }) => id);
  if (held.length === 0) return 0;
  try {
    for (const [from, messages] of Map.groupBy(taken, (message) => message.from)) {
      if (from !== RELAY_NAME) await notify(workspace, from, reader.name, messages);
    }
  } catch (error) {
    await spool.release(claim, held, { because: 'its sender could not be told' });
    throw error;
  }
  const done = await spool.settle(claim, held, { disposition: 'failed', by: { expired: true, by: RELAY_NAME } });
  return done ? held.length : 0;
}

async function notify(workspace: Workspace, from: string, reader: AgentName, messages: Message[]): Promise<void> {
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
    // The sender is gone or has no room, or was told of these before: the copies end all the same.
    if (!(error instanceof Refusal)) throw error;
  }
}

/** By our own clock. A message that another program left may carry any time, also one to come: the moment counts at which we found it. */
async function arrivedAt(reader: Who, message: Message): Promise<number> {
  const trace = await reader.home.ledger.trace(message.id);
  const copy = trace?.copies.find(({ mailbox }) => mailbox === reader.name);
  const found = copy?.receipts.find(({ step }) => step === 'stored');
  return Date.parse(found?.at ?? message.ts);
}
