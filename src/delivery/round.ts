import { greeting, knock, moreWait, pointer, wholeMessage } from './fence.ts';
import type { Mail, Voice } from './fence.ts';

/** One piece of a text: a whole message, or a sign that stands for one which the reader fetches. */
export interface Piece {
  mail: Mail;
  kind: 'whole' | 'knock' | 'pointer';
}

/** What one text holds, in order, and how many more would have been in it if there were room. */
export interface Round {
  pieces: Piece[];
  left: number;
}

export interface Room {
  /** How long a text may be, and how the client counts. */
  limit: number;
  length: (text: string) => number;
  /** Is it free to speak here? If not, knocks alone are no reason to. */
  free: boolean;
}

/**
 * Decides what goes into one text: the most pressing first, then the oldest; whole messages as long as there is room. A
 * message that would not fit even alone is pointed at. spec: hook#shown
 */
export function planRound(voice: Voice, waiting: readonly Mail[], room: Room): Round {
  const size = (text: string): number => room.length(text) + 1;
  const start = size(greeting(voice)) + size(moreWait(voice, 1_000_000));
  const pieces: Piece[] = [];
  let used = start;
  const ordered = pressingFirst(waiting);
  for (const mail of ordered) {
    const piece = pieceFor(voice, mail, (text) => start + size(text) <= room.limit);
    used += size(textOf(voice, piece));
    if (used > room.limit) break;
    pieces.push(piece);
  }
  if (!room.free && pieces.every(({ kind }) => kind === 'knock')) return { pieces: [], left: 0 };
  return { pieces, left: ordered.length - pieces.length };
}

/** The text of a round. Never longer than the room that it was planned for. */
export function roundText(voice: Voice, { pieces, left }: Round): string {
  const rest = left > 0 ? [moreWait(voice, left)] : [];
  return [greeting(voice), ...pieces.map((piece) => textOf(voice, piece)), ...rest].join('\n');
}

function pieceFor(voice: Voice, mail: Mail, fitsAlone: (text: string) => boolean): Piece {
  if (mail.attention.injection === 'notify') return { mail, kind: 'knock' };
  return { mail, kind: fitsAlone(wholeMessage(voice, mail)) ? 'whole' : 'pointer' };
}

const TEXTS = { whole: wholeMessage, knock, pointer };
function textOf(voice: Voice, { mail, kind }: Piece): string {
  return TEXTS[kind](voice, mail);
}

function pressingFirst(mail: readonly Mail[]): Mail[] {
  const isPressing = ({ attention }: Mail): number => (attention.injection === 'immediate' ? 0 : 1);
  // Within a millisecond the order in which they were found stays.
  const age = (a: Mail, b: Mail): number => Number(a.message.ts > b.message.ts) - Number(a.message.ts < b.message.ts);
  return mail.toSorted((a, b) => isPressing(a) - isPressing(b) || age(a, b));
}
