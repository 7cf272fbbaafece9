/** Telegram counts UTF-16 units. */
export const PIECE_LIMIT = 4096;

const characters = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

/** The text in pieces that a chat takes. A piece ends between characters, and nothing is left out. */
export function piecesOf(text: string, limit = PIECE_LIMIT): string[] {
  if (text.length <= limit) return [text];
  const pieces: string[] = [];
  let piece = '';
  for (const { segment } of characters.segment(text)) {
    // A character of many joined ones may be longer than a piece; then it is cut between its parts.
    const parts = segment.length > limit ? Array.from(segment) : [segment];
    for (const part of parts) {
      if (piece.length + part.length > limit) {
        pieces.push(piece);
        piece = '';
      }
      piece += part;
    }
  }
  return [...pieces, piece];
}

/** The beginning of a text, with a sign that it goes on. */
export function cutTo(text: string, limit: number): string {
  return text.length <= limit ? text : `${piecesOf(text, limit - 1)[0] ?? ''}…`;
}
