import { Refusal } from '../../protocol/refusal.ts';
import { isDead } from '../holder.ts';
import type { Acceptance, CopyRecord, Entry } from './ledger.ts';

/** The answer to a key that is known: what stands under it, or a refusal if this is another text. */
export function sameOrConflict(earlier: Acceptance, entry: Entry): Acceptance {
  const same = earlier.message.body === entry.message.body && earlier.message.to === entry.message.to;
  if (same || earlier.pruned) return earlier;
  throw new Refusal(
    'key_conflict',
    `key "${entry.key ?? ''}" already names another message (${earlier.message.id.slice(0, 8)}); use a new key for a new text`,
  );
}

/** A key from before the ledger was lost may name a message that was read long ago: nobody can tell any more. */
export function refuseOlderThan(rebuilt: number, entry: Entry): void {
  if (!entry.firstTried || Date.parse(entry.firstTried) >= rebuilt) return;
  throw new Refusal(
    'outcome_unknown',
    `nobody can tell whether key "${entry.key ?? ''}" was sent: the ledger was rebuilt after its first try; nothing was stored: ask the recipient, then send with a new key`,
  );
}

/** Held by nobody who could still end it: the time is over, or the holder is dead. */
export function isAbandoned(copy: CopyRecord, now: number): boolean {
  return (copy.until ?? 0) <= now || (copy.owner !== null && isDead(copy.owner));
}

/** Not in any reader's hand: stored, or put back until a time. */
export function isWaiting(copy: CopyRecord): boolean {
  return copy.state === 'stored' || (copy.state === 'held' && copy.owner === null);
}

/** The words to look for. A lone sign is none, and a NUL would end a query in the middle. */
export function termsIn(words: string): string[] {
  return words.split(/[\s\p{Cc}]+/u).filter((term) => /[\p{L}\p{N}]/u.test(term));
}
