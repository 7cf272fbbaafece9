import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { Receipt } from '../../protocol/receipt.ts';
import type { CopyRecord } from '../../storage/ledger/ledger.ts';
import type { Who } from '../workspace.ts';
import { aGroup, keyOf, placeOf } from './item.ts';
import type { Item } from './item.ts';
import type { Session } from './session.ts';

/** How often a host offered a copy, by what is written down of it. */
export async function attemptsOf({ who, message }: Pick<Item, 'who' | 'message'>): Promise<number> {
  return offersIn(await receiptsOf(who, message.id)).length;
}

/**
 * Finds what a session held before the host was restarted. What its harness had accepted is open. What it had not accepted, and what
 * was to be tried again after a failed turn, goes out again as before; a return that was counted and never offered goes out as a
 * knock. What was claimed and never offered waits again.
 */
export async function restoreHeld(session: Session): Promise<void> {
  const unaccepted: { item: Item; event: string }[] = [];
  for (const who of session.whos) {
    for (const copy of await who.home.ledger.heldBy(who.name, session.owner)) {
      const found = await foundIn(session, who, copy);
      if (!found) continue;
      if (!found.isAccepted) unaccepted.push(found);
      else session.open.set(keyOf(found.item), found.item);
      if (found.isAccepted && found.returns > 0)
        session.queue.putBack(aGroup({ ...found.item, mode: 'notify' }, { returns: found.returns }));
    }
  }
  for (const together of Map.groupBy(unaccepted, ({ item, event }) => `${event}:${item.who.name}`).values()) {
    const [first, ...others] = together.map(({ item }) => item).toSorted((a, b) => a.seq - b.seq);
    if (first) session.queue.putBack(aGroup(first, { items: [first, ...others] }));
  }
}

/** Gives back what a session has in hand of a mailbox that it no longer reads: it waits again, for whoever does. */
export async function giveBack({ owner }: Session, { name, home }: Who): Promise<void> {
  const held = (await home.ledger.heldBy(name, owner)).map(({ id }) => id);
  const because = 'its session reads other mailboxes now';
  if (held.length > 0) await home.spool.release({ mailbox: name, owner }, held, { because });
}

interface Found {
  item: Item;
  /** The event in whose turn it stood: itself, or what was merged with it. */
  event: string;
  isAccepted: boolean;
  /** It came back this often, and the last time was not offered. 0: nothing was missed. */
  returns: number;
}

async function foundIn(session: Session, who: Who, copy: CopyRecord): Promise<Found | null> {
  const message = await who.home.ledger.message(copy.id);
  const receipts = await receiptsOf(who, copy.id);
  const offers = offersIn(receipts);
  const { seq, merged } = offers.at(-1)?.evidence ?? {};
  if (!message || typeof seq !== 'number') {
    await who.home.spool.release({ mailbox: who.name, owner: session.owner }, [copy.id], { because: 'never offered' });
    return null;
  }
  const item: Item = {
    who,
    message,
    attention: copy.attention,
    seq,
    author: await session.house.people.person(message.from),
    conversation: placeOf(message, who),
    mode: copy.attention.injection,
    attempts: offers.length,
    held: true,
  };
  return {
    item,
    event: typeof merged === 'string' ? merged : message.id,
    isAccepted: wasAccepted(receipts, session.id),
    returns: await missedReturn(who, copy.id, receipts),
  };
}

/** Accepted by this session, and not given back since by a turn that failed. */
function wasAccepted(receipts: readonly Receipt[], session: string): boolean {
  const own = receipts.filter(({ evidence }) => evidence['session'] === session);
  const accepted = own.findLastIndex(({ step }) => step === 'accepted' || step === 'knocked');
  return accepted > own.findLastIndex(({ step }) => step === 'released');
}

/** The number of the last return, if the host ended before it was offered. */
async function missedReturn({ name, home }: Who, id: MessageId, receipts: readonly Receipt[]): Promise<number> {
  const duty = await home.ledger.duty(name, id);
  if (!duty || duty.ended || duty.state !== 'open') return 0;
  const known = receipts.filter(({ step }) => step === 'offered' || step === 'reconsidered');
  const offered = Math.max(0, ...known.map(({ evidence }) => Number(evidence['returns'] ?? 0)));
  return duty.returns > offered ? duty.returns : 0;
}

function offersIn(receipts: readonly Receipt[]): Receipt[] {
  return receipts.filter(({ step, evidence }) => step === 'offered' && evidence['way'] === 'host');
}

async function receiptsOf({ name, home }: Who, id: MessageId): Promise<Receipt[]> {
  const copies = (await home.ledger.trace(id))?.copies ?? [];
  return copies.find(({ mailbox }: { mailbox: AgentName }) => mailbox === name)?.receipts ?? [];
}
