import type { AgentName, MessageId } from '../protocol/names.ts';

interface Candidate {
  name: AgentName;
  /** Since when it has nothing to do (ms); somebody who is busy has a later time than everybody else. */
  idleSince: number;
  /** How many duties it has open. */
  open: number;
}

/** Who should answer for an event that was offered to several, or null if there is nobody. spec: c2a#roles */
export function chooseResponder(candidates: readonly Candidate[], event: MessageId): AgentName | null {
  return rankResponders(candidates, event)[0] ?? null;
}

/** All of them in the order in which they are asked: idle the longest, fewest duties, and then by lot. */
export function rankResponders(candidates: readonly Candidate[], event: MessageId): AgentName[] {
  const drawn = candidates.map((one) => ({ ...one, lot: lotOf(`${event} ${one.name}`) }));
  return drawn
    .toSorted((a, b) => compare(a.idleSince, b.idleSince) || compare(a.open, b.open) || compare(a.lot, b.lot))
    .map(({ name }) => name);
}

function compare(a: number, b: number): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The same lot for the same name and event everywhere, and another for every event. FNV-1a: no import, no secret. */
function lotOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let n = 0; n < text.length; n += 1) hash = Math.imul(hash ^ text.charCodeAt(n), 0x01000193);
  // The last letters would hardly reach the upper bits, by which lots are compared.
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  hash = Math.imul(hash ^ (hash >>> 12), 0x297a2d39);
  return (hash ^ (hash >>> 15)) >>> 0;
}
