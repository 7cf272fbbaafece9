import { readMessage } from '../message.ts';
import type { Message } from '../message.ts';
import type { MessageId } from '../names.ts';
import type { Evidence } from '../receipt.ts';
import { scopeMatches } from '../names.ts';
import type { CopyRecord, Settlement } from '../ports/journal.ts';
import type { Claim } from '../ports/mailboxes.ts';
import { receiptsOf } from './workspace.ts';
import type { Who } from './workspace.ts';
import { WaitingPages } from './deliver.ts';

/** The most characters of text in one answer, for the oldest messages and for messages named by id. A single message may be longer. */
const ENOUGH_TEXT = 4 * 1024 * 1024;
const ENOUGH_NAMED = 16 * 1024 * 1024;

/** The messages that a reader on another machine asks for: these ids, or the oldest that fit its context. */
export type LeaseWanted = { ids: MessageId[] } | { match: string | undefined; max: number };

/**
 * Step 4 of 5, for a reader on another machine. The lease has an owner name of its own. The reader holds the copies under that name until it
 * says how they ended. If it never does, they wait again after `ms`.
 *
 * waiting → leased → settled, by `settleLease`; → waiting, by `releaseLease` or by time.
 */
export async function lease(who: Who, wanted: LeaseWanted, ms: number): Promise<Claim> {
  const read = 'ids' in wanted ? await named(who, wanted.ids) : await oldest(who, wanted.match, wanted.max);
  const known = new Map([...read].flatMap(([id, message]) => (message ? [[id, message] as const] : [])));
  return who.home.mailboxes.claim(who.name, [...read.keys()], { ms, bearer: true }, known);
}

/** As many of these messages as fit into one answer, each with its text if it waits. The reader can ask for the others next. */
async function named(who: Who, ids: MessageId[]): Promise<Map<MessageId, Message | null>> {
  const { journal } = who.home;
  const found = new Map<MessageId, Message | null>();
  const elsewhere: MessageId[] = [];
  let size = 0;
  const hasRoom = (text: string): boolean => {
    size += text.length;
    return found.size === 0 || size <= ENOUGH_NAMED;
  };
  for (const id of ids) {
    const waiting = await journal.waitingCopy(who.name, id);
    if (!waiting) elsewhere.push(id);
    else if (hasRoom(waiting.text)) found.set(id, readMessage(JSON.parse(waiting.text)));
    else return found;
  }
  // These are delayed, or held by a reader that may be dead. They come last, so that they take no room from waiting messages.
  for (const id of elsewhere) {
    const copy = await journal.copy(who.name, id);
    if (copy && !hasRoom(JSON.stringify(await journal.message(id)))) break;
    found.set(id, null);
  }
  return found;
}

/**
 * Step 5 of 5 for leased copies. Returns how many copies this call ended. A repeated call succeeds too, because a reader may lose our answer.
 * Null, and nothing is changed, if any copy is no longer held under this owner name.
 */
export async function settleLease(
  who: Who,
  owner: string,
  ids: MessageId[],
  settlement: Settlement,
): Promise<number | null> {
  const by = { ...settlement.by, lease: owner };
  const open: MessageId[] = [];
  for (const id of ids) if (!endedBy(await who.home.journal.copy(who.name, id), owner)) open.push(id);
  if (open.length === 0) return 0;
  const done = await who.home.mailboxes.settle({ mailbox: who.name, owner }, open, { ...settlement, by }, 'shown');
  return done ? open.length : null;
}

/** Gives leased copies back, at once or after `delayMs`. A repeated call succeeds too. False if any copy was not held. */
export async function releaseLease(
  who: Who,
  owner: string,
  ids: MessageId[],
  because: Evidence,
  delayMs?: number,
): Promise<boolean> {
  const evidence = { ...because, lease: owner };
  const released = new Set(await who.home.mailboxes.release({ mailbox: who.name, owner }, ids, evidence, delayMs));
  for (const id of ids) {
    if (released.has(id)) continue;
    const receipts = await receiptsOf(who, id);
    if (!receipts.some(({ step, evidence }) => step === 'released' && evidence['lease'] === owner)) return false;
  }
  return true;
}

function endedBy(copy: CopyRecord | null, owner: string): boolean {
  return copy?.state === 'settled' && copy.settledBy?.['lease'] === owner;
}

/** The oldest waiting messages for this context. */
async function oldest(who: Who, match: string | undefined, max: number): Promise<Map<MessageId, Message>> {
  const found = new Map<MessageId, Message>();
  const pages = new WaitingPages(who);
  let size = 0;
  while (!pages.isRead) {
    for (const { text } of await pages.next()) {
      const message = readMessage(JSON.parse(text));
      if (!message || !scopeMatches(message.scope, match)) continue;
      if (found.size > 0 && size + text.length > ENOUGH_TEXT) return found;
      size += text.length;
      found.set(message.id, message);
      if (found.size === max) return found;
    }
    // Many messages may wait that do not match: let other requests run meanwhile.
    if (!pages.isRead) await new Promise<void>((resolve) => setImmediate(resolve));
  }
  return found;
}
