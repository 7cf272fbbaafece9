import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { BrokerEntry } from '../../protocol/c2c.ts';
import { derivedId, fingerprint } from '../c2c/entry.ts';
import type { Slip } from '../c2c/inbox-file.ts';
import type { CopyState, Ledger } from '../ledger/ledger.ts';

/** What stands in an inbox, each under its id. */
export type Found = Map<MessageId, Slip>;

/**
 * Gives every entry its id. One that says none, or one under which other words are known, is known by its words, and alike ones by
 * their number; a number whose copy has ended or is in a hand is not given again, so that the same words said later are another message.
 */
export async function identified(
  slips: readonly Slip[],
  state: (id: MessageId) => Promise<CopyState | null>,
  isInHand: (id: MessageId) => boolean,
  isReused: (id: MessageId, entry: BrokerEntry) => Promise<boolean>,
): Promise<Found> {
  const said = new Set(slips.map(({ id }) => id));
  const isTaken = async (id: MessageId): Promise<boolean> =>
    said.has(id) || isInHand(id) || (await state(id)) === 'settled';
  const found: Found = new Map();
  const next = new Map<string, number>();
  for (const slip of slips) {
    if (slip.id && !(await isReused(slip.id, slip.entry))) {
      found.set(slip.id, slip);
      continue;
    }
    const print = slip.print ?? fingerprint(slip.entry);
    let n = next.get(print) ?? 0;
    while (await isTaken(derivedId(print, n))) n += 1;
    found.set(derivedId(print, n), slip);
    next.set(print, n + 1);
  }
  return found;
}

/** Asks the ledger only for what is not open: that is known. */
export function stateIn(ledger: Ledger, mailbox: AgentName, open: ReadonlyMap<MessageId, unknown>) {
  return async (id: MessageId): Promise<CopyState | null> =>
    open.has(id) ? 'stored' : ((await ledger.copy(mailbox, id))?.state ?? null);
}

/**
 * Another program may give an id again that other words have, also long ago or to somebody else. What waits here under it is that message;
 * of words that are forgotten nobody can tell.
 */
export function reusedIn(ledger: Ledger, open: ReadonlyMap<MessageId, unknown>) {
  return async (id: MessageId, { content, from_alias: from }: BrokerEntry): Promise<boolean> => {
    const known = open.has(id) ? null : await ledger.message(id);
    return known !== null && known.body !== '' && (known.body !== content || known.from !== from);
  };
}
