import { splitCode } from './prose.ts';

/** One of several messages that somebody writes in a row. */
export interface Fragment {
  at: number;
  text: string;
}

/** Nobody writes for ever: what began this long ago is shown as it is. */
const MOST_MS = 30_000;
/** What a person's text waits for more, unless the settings say another time. */
const PERSON_MS = 2_500;
const UNFINISHED_MS = 4_000;
const FINISHED_MS = 2_000;
/** A sentence this long that ends like one is rarely followed by another at once. */
const LONG = 40;
const AGENT_MS = 250;

/** How long to wait after a text before it is shown: somebody may not be done yet. spec: c2a#compose */
export function windowMs(text: string, fromAgent: boolean, personMs = PERSON_MS): number {
  if (fromAgent) return AGENT_MS;
  const end = text.trimEnd();
  if (/(?:[:,…]|\.\.\.)$/.test(end) || isFenceOpen(end)) return Math.max(UNFINISHED_MS, personMs);
  return /[?.!]$/.test(end) && end.length > LONG ? FINISHED_MS : personMs;
}

/**
 * When what somebody wrote may be shown, as one text (ms). While they type it is held, but never for more than 30 s after the
 * first. Agents do not type: what they say within a moment is joined, and that is all. spec: c2a#compose
 */
export function readyAt(
  fragments: readonly Fragment[],
  fromAgent: boolean,
  typingSince: number | null,
  personMs = PERSON_MS,
): number {
  const first = fragments[0]?.at ?? 0;
  const latest = first + MOST_MS;
  if (fromAgent) return first + AGENT_MS;
  if (typingSince !== null) return latest;
  const last = fragments.at(-1)?.at ?? first;
  return Math.min(latest, last + windowMs(fragments.map(({ text }) => text).join('\n'), fromAgent, personMs));
}

function isFenceOpen(text: string): boolean {
  // A line of its own behind it is code only if a fence is still open there.
  return splitCode(`${text}\n\u0000`).blocks.at(-1)?.endsWith('\u0000') ?? false;
}
