/**
 * A body as it may be shown to a person or a model: control characters, invisible characters and changes of writing direction
 * become visible, so that no text can move a cursor, hide, or read otherwise than it is.
 */
export function visible(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(UNSAFE, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `\\u{${code.toString(16)}}`;
  });
}

/** The same on one line: newlines and tabs become spaces. For names, topics and everything that stands in a header. */
export function visibleLine(text: string, limit = 200): string {
  const line = visible(text.replace(/[\n\r\t\u2028\u2029]+/g, ' '));
  return line.length > limit ? `${line.slice(0, limit - 1)}…` : line;
}

// C0 without tab and newline, DEL, C1, line and paragraph separators, zero-width, bidirectional and tag characters.
const UNSAFE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;
