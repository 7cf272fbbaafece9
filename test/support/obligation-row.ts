import type { Obligation } from '../../src/core/obligations/rules.ts';
import type { Obligations } from '../../src/core/ports/obligations.ts';
import { alice, anId, bob } from './mail.ts';

/** What bob owes to alice, unless told otherwise. */
export function anObligation(fields: Partial<Obligation> = {}): Obligation {
  return {
    id: anId(),
    mailbox: bob,
    from: alice,
    kind: 'reply',
    at: 1_000_000,
    every: 100_000,
    state: 'open',
    due: 1_100_000,
    returns: 0,
    tier: 0,
    extended: false,
    note: null,
    ended: null,
    ...fields,
  };
}

/** A duty for every copy that must be answered and has none. Returns what was entered, or null if somebody else was faster. */
export async function enterAll(
  journal: Obligations,
  limit = 100,
  fields: Partial<Obligation> = {},
): Promise<Obligation[] | null> {
  const { from, upTo, copies } = await journal.unentered(limit);
  const obligations = copies.map(({ copy, message }) =>
    anObligation({ id: copy.id, mailbox: copy.mailbox, from: message.from, at: Date.parse(message.ts), ...fields }),
  );
  return (await journal.enter(from, upTo, obligations)) ? obligations : null;
}
