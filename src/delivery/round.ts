import type { Mail } from './fence.ts';

/** In which words a round is said. */
export interface Phrases {
  greeting: string;
  whole(mail: Mail): string;
  knock(mail: Mail): string;
  pointer(mail: Mail): string;
  moreWait(count: number): string;
}

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
export function planRound(say: Phrases, waiting: readonly Mail[], room: Room): Round {
  const size = (text: string): number => room.length(text) + 1;
  const start = size(say.greeting) + size(say.moreWait(1_000_000));
  const pieces: Piece[] = [];
  let used = start;
  const ordered = pressingFirst(waiting);
  for (const mail of ordered) {
    const piece = pieceFor(say, mail, room.limit, (text) => start + size(text) <= room.limit);
    used += size(say[piece.kind](piece.mail));
    if (used > room.limit) break;
    pieces.push(piece);
  }
  if (!room.free && pieces.every(({ kind }) => kind === 'knock')) return { pieces: [], left: 0 };
  return { pieces, left: ordered.length - pieces.length };
}

/** The text of a round. Never longer than the room that it was planned for. */
export function roundText(say: Phrases, { pieces, left }: Round): string {
  const rest = left > 0 ? [say.moreWait(left)] : [];
  return [say.greeting, ...pieces.map((piece) => say[piece.kind](piece.mail)), ...rest].join('\n');
}

function pieceFor(say: Phrases, mail: Mail, limit: number, fitsAlone: (text: string) => boolean): Piece {
  // A guard wakes nobody, but it hides no text.
  if (mail.attention.injection === 'notify' && mail.attention.reason !== 'loop') return { mail, kind: 'knock' };
  // A huge body is not even rendered.
  const isWhole = mail.message.body.length <= limit && fitsAlone(say.whole(mail));
  return { mail, kind: isWhole ? 'whole' : 'pointer' };
}

function pressingFirst(mail: readonly Mail[]): Mail[] {
  const isPressing = ({ attention }: Mail): number => (attention.injection === 'immediate' ? 0 : 1);
  // Within a millisecond the order in which they were found stays.
  const age = (a: Mail, b: Mail): number => Number(a.message.ts > b.message.ts) - Number(a.message.ts < b.message.ts);
  return mail.toSorted((a, b) => isPressing(a) - isPressing(b) || age(a, b));
}
