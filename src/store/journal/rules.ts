import type { Message } from '../../core/message.ts';
import { Refusal } from '../../core/refusal.ts';
import { isHolderAlive, isDead } from '../../platform/holder.ts';
import type { Acceptance, CopyRecord, Entry } from '../../core/ports/journal.ts';

/** A retry of "in 30 minutes" computes a slightly later deadline. Within this span it counts as the same. */
const SAME_SPAN_MS = 10_000;

/** The answer to a known key: the earlier entry, or a refusal if the new entry differs from it. spec: message#keys */
export function sameOrConflict(earlier: Acceptance, entry: Entry): Acceptance {
  const [a, b] = [earlier.message, entry.message];
  const isSameText = earlier.pruned || a.body === b.body;
  if (isSameText && wordsOf(a) === wordsOf(b) && isSameDeadline(dueOf(a), dueOf(b))) return earlier;
  throw new Refusal(
    'key_conflict',
    `key "${entry.key ?? ''}" already names another message (${earlier.message.id.slice(0, 8)}); use a new key for a new text`,
  );
}

/** Everything a sender gives besides body and deadline, with defaults filled in. */
function wordsOf({ to, priority, scope, thread, refs, parley }: Message): string {
  const { intent = 'none', signal = '', recipient = '', replaces = '', aim = '', obligation } = parley ?? {};
  const owed = obligation && [obligation.blocks, obligation.defaultAction ?? '', obligation.delegate ?? ''];
  const held = parley?.held && [parley.held.to, parley.held.key, parley.held.thread ?? ''];
  const said = [intent, signal, recipient, replaces, aim, owed ?? [], held ?? []];
  return JSON.stringify([to, priority, scope ?? '', thread ?? '', refs ?? [], ...said]);
}

/** True for the same moment, or for the same span after each send. */
export function isSameDeadline(a: Due, b: Due): boolean {
  if (!a.deadline || !b.deadline) return (a.deadline ?? '') === (b.deadline ?? '');
  const apart = Date.parse(a.deadline) - Date.parse(b.deadline);
  const sentApart = Date.parse(a.sent) - Date.parse(b.sent);
  return apart === 0 || Math.abs(apart - sentApart) < SAME_SPAN_MS;
}

interface Due {
  deadline: string | undefined;
  sent: string;
}

function dueOf({ ts, parley }: Message): Due {
  return { deadline: parley?.deadline, sent: ts };
}

/** A key from before the journal was lost may name a message that was read long ago. There is no proof either way, so it is refused. */
export function refuseOlderThan(rebuilt: number, entry: Entry): void {
  if (!entry.firstTried || Date.parse(entry.firstTried) >= rebuilt) return;
  throw new Refusal(
    'outcome_unknown',
    `nobody can tell whether key "${entry.key ?? ''}" was sent: the ledger was rebuilt after its first try; nothing was stored: ask the recipient, then send with a new key`,
  );
}

/**
 * True if no reader can still settle the copy: its owner is dead, or its lease has run out and the owner is not known to be alive. A
 * live reader keeps its copies, however slow it is, so no two live readers get one copy.
 */
export function isAbandoned(
  { owner, until }: Pick<CopyRecord, 'owner' | 'until'>,
  now: number,
  died = isDead,
): boolean {
  if (owner !== null && died(owner)) return true;
  return (until ?? 0) <= now && (owner === null || !isHolderAlive(owner));
}

/** True if no reader holds it: stored, or released until a time. */
export function isWaiting(copy: CopyRecord): boolean {
  return copy.state === 'stored' || (copy.state === 'held' && copy.owner === null);
}

/**
 * The position up to which copies were scanned for obligations. Its integer part is the last sequence number, its fraction counts how often
 * the scan went back. A position never repeats after the scan went back, so a concurrent scan notices.
 */
const MOST_RETURNS = 1024;

export function numberAt(place: number): number {
  return Math.floor(place);
}

/** The position at another sequence number, with the same count. */
export function placeAt(seq: number, place: number): number {
  return seq + (place - numberAt(place));
}

/** The position from which the copies of message `seq` are scanned again. */
export function goneBack(place: number, seq: number): number {
  const returns = (Math.round((place - numberAt(place)) * MOST_RETURNS) + 1) % MOST_RETURNS;
  return Math.min(numberAt(place), seq - 1) + returns / MOST_RETURNS;
}
