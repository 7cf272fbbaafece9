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

/** One answer carries no more text than this, unless a single message does: of the oldest, and of those asked for by name. */
const ENOUGH_TEXT = 4 * 1024 * 1024;
const ENOUGH_NAMED = 16 * 1024 * 1024;

/** What a reader elsewhere asks for: these messages, or the oldest that fit its context. */
export type LeaseWanted = { ids: MessageId[] } | { match: string | undefined; max: number };

/**
 * Step 4 of 5, for a reader on another machine. It holds the copies under a name of their own until it says how they ended; if it
 * never does, they wait again when the time is over.
 *
 * waiting → leased → settled, by `settleLease`; → waiting, by `releaseLease` or by time.
 */
export async function lease(who: Who, wanted: LeaseWanted, ms: number): Promise<Claim> {
  const read = 'ids' in wanted ? await named(who, wanted.ids) : await oldest(who, wanted.match, wanted.max);
  const known = new Map([...read].flatMap(([id, message]) => (message ? [[id, message] as const] : [])));
  return who.home.mailboxes.claim(who.name, [...read.keys()], { ms, bearer: true }, known);
}

/** As many of these as one answer can carry, with their text where they wait. The others can be asked for next. */
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
  // Put back for a while, or held by somebody who may be dead: after what waits, so that it takes nobody's place.
  for (const id of elsewhere) {
    const copy = await journal.copy(who.name, id);
    if (copy && !hasRoom(JSON.stringify(await journal.message(id)))) break;
    found.set(id, null);
  }
  return found;
}

/**
 * Step 5 of 5 for leased copies. The same call again answers the same: a reader may lose our answer. Returns how many
 * ended by this very call; null, and nothing is changed, if any of them is no longer held under this name.
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

/** Gives leased copies back, at once or after a while. The same call again answers the same. False if any was not held. */
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
    // Much may wait that does not fit: others want an answer meanwhile.
    if (!pages.isRead) await new Promise<void>((resolve) => setImmediate(resolve));
  }
  return found;
}
