import type { Message } from '../../protocol/message.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { isAlive, isDead } from '../holder.ts';
import type { Acceptance, CopyRecord, Entry } from './ledger.ts';

/** A deadline "in 30 minutes" is another time whenever it is said again: so close, it counts as the same span. */
const SAME_SPAN_MS = 10_000;

/** The answer to a key that is known: what stands under it, or a refusal if anything was said otherwise. spec: message#keys */
export function sameOrConflict(earlier: Acceptance, entry: Entry): Acceptance {
  const [a, b] = [earlier.message, entry.message];
  const isSameText = earlier.pruned || a.body === b.body;
  if (isSameText && wordsOf(a) === wordsOf(b) && isSameDeadline(dueOf(a), dueOf(b))) return earlier;
  throw new Refusal(
    'key_conflict',
    `key "${entry.key ?? ''}" already names another message (${earlier.message.id.slice(0, 8)}); use a new key for a new text`,
  );
}

/** All that its sender said beside the body and the deadline, with what is left out as what it means. */
function wordsOf({ to, priority, scope, thread, refs, parley }: Message): string {
  const { intent = 'none', signal = '', recipient = '', replaces = '', aim = '', obligation } = parley ?? {};
  const owed = obligation && [obligation.blocks, obligation.defaultAction ?? '', obligation.delegate ?? ''];
  const held = parley?.held && [parley.held.to, parley.held.key, parley.held.thread ?? ''];
  const said = [intent, signal, recipient, replaces, aim, owed ?? [], held ?? []];
  return JSON.stringify([to, priority, scope ?? '', thread ?? '', refs ?? [], ...said]);
}

/** The same moment, or as long after its send as the other one after its own. */
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

/** A key from before the ledger was lost may name a message that was read long ago: nobody can tell any more. */
export function refuseOlderThan(rebuilt: number, entry: Entry): void {
  if (!entry.firstTried || Date.parse(entry.firstTried) >= rebuilt) return;
  throw new Refusal(
    'outcome_unknown',
    `nobody can tell whether key "${entry.key ?? ''}" was sent: the ledger was rebuilt after its first try; nothing was stored: ask the recipient, then send with a new key`,
  );
}

/**
 * Held by nobody who could still end it: the holder is dead, or the time is over and nobody can tell. A reader that is seen to
 * be alive keeps what it has, however slow it is: no two live readers get one copy.
 */
export function isAbandoned(
  { owner, until }: Pick<CopyRecord, 'owner' | 'until'>,
  now: number,
  died = isDead,
): boolean {
  if (owner !== null && died(owner)) return true;
  return (until ?? 0) <= now && (owner === null || !isAlive(owner));
}

/** Not in any reader's hand: stored, or put back until a time. */
export function isWaiting(copy: CopyRecord): boolean {
  return copy.state === 'stored' || (copy.state === 'held' && copy.owner === null);
}

/**
 * The place up to which copies were looked at for duties: the number of the last one, and behind the point how often somebody had to
 * go back. So a place is never the same again after something was found before it, and whoever looked before that notices.
 */
const TURNS = 1024;

export function numberAt(place: number): number {
  return Math.floor(place);
}

/** The same turn, another number. */
export function placeOf(seq: number, place: number): number {
  return seq + (place - numberAt(place));
}

/** The place from which the copies of message `seq` are looked at once more. */
export function goneBack(place: number, seq: number): number {
  const turn = (Math.round((place - numberAt(place)) * TURNS) + 1) % TURNS;
  return Math.min(numberAt(place), seq - 1) + turn / TURNS;
}
