import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { Receipt } from '../../protocol/receipt.ts';
import type { CopyRecord } from '../../storage/ledger/ledger.ts';
import type { Who } from '../desk.ts';
import { aGroup, keyOf, placeOf } from './item.ts';
import type { Item } from './item.ts';
import type { Session } from './session.ts';

/** How often a host offered a copy, by what is written down of it. */
export async function attemptsOf({ who, message }: Pick<Item, 'who' | 'message'>): Promise<number> {
  return offersIn(await receiptsOf(who, message.id)).length;
}

/**
 * Finds again what a session has in hand, after a restart of the host: by the name under which it holds it. What its harness had
 * accepted is open; the rest goes out once more, as it went out before. What was claimed a moment before the end, and never offered,
 * waits again.
 */
export async function restoreHeld(session: Session): Promise<void> {
  const unaccepted: { item: Item; event: string }[] = [];
  for (const who of session.whos) {
    for (const copy of await who.home.ledger.heldBy(who.name, session.owner)) {
      const found = await foundIn(session, who, copy);
      if (found?.isAccepted) session.open.set(keyOf(found.item), found.item);
      else if (found) unaccepted.push(found);
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
  };
}

function wasAccepted(receipts: readonly Receipt[], session: string): boolean {
  return receipts.some(
    ({ step, evidence }) => (step === 'accepted' || step === 'knocked') && evidence['session'] === session,
  );
}

function offersIn(receipts: readonly Receipt[]): Receipt[] {
  return receipts.filter(({ step, evidence }) => step === 'offered' && evidence['way'] === 'host');
}

async function receiptsOf({ name, home }: Who, id: MessageId): Promise<Receipt[]> {
  const copies = (await home.ledger.trace(id))?.copies ?? [];
  return copies.find(({ mailbox }: { mailbox: AgentName }) => mailbox === name)?.receipts ?? [];
}
