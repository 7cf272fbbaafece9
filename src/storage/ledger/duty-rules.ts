import type { Duty } from '../../protocol/duty.ts';
import type { Disposition, Evidence } from '../../protocol/receipt.ts';
import type { EventClaim } from './duties.ts';

/** How a duty ends whose author was forgotten. */
export const NOBODY_WAITS: { as: Disposition; by: Evidence } = {
  as: 'superseded',
  by: { because: 'its author was forgotten' },
};

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

/** The time between two returns where nobody can tell: a third of five minutes. */
const UNREADABLE_MS = 100_000;

/** Other programs write times that nobody can read. One such message must not stand in the way of all duties after it. */
export function readable(duty: Duty): Duty {
  const at = Number.isFinite(duty.at) ? duty.at : 0;
  const { every, due, ended } = duty;
  return {
    ...duty,
    at,
    every: Number.isFinite(every) ? every : UNREADABLE_MS,
    due: due === null || Number.isFinite(due) ? due : at,
    ended: ended && { ...ended, at: Number.isFinite(ended.at) ? ended.at : at },
  };
}

/** How a duty stands after a change; null if it stays as it is. What has ended never changes. */
export function afterChange(duty: Duty, change: (duty: Duty) => Duty | null): Duty | null {
  if (duty.ended) return null;
  const next = change(structuredClone(duty));
  const { id, mailbox, from, kind, at, every } = duty;
  return next && readable({ ...next, id, mailbox, from, kind, at, every });
}

/** The claim that stands after somebody asked for one. */
export function claimAfter(standing: EventClaim | null, asked: EventClaim, now: number): EventClaim {
  if (!standing || standing.until <= now) return asked;
  if (standing.holder !== asked.holder) return standing;
  return {
    ...asked,
    until: Math.max(standing.until, asked.until),
    reserved: standing.reserved && asked.reserved,
  };
}
