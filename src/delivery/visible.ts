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

// Control characters but tab and newline, separators, and everything that is drawn as nothing or changes how the rest is drawn:
// such characters can carry text that only a model sees.
const HIDDEN = '(?!\\t|\\n)[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}\\u2800]';
// Where emoji and scripts need a joiner or the emoji selector, it stays.
const PICTURE = '[\\p{Extended_Pictographic}\\p{Emoji_Modifier}\\ufe0f]';
const JOINING_LETTER =
  '[\\p{Script=Arabic}\\p{Script=Syriac}\\p{Script=Devanagari}\\p{Script=Bengali}\\p{Script=Gurmukhi}\\p{Script=Gujarati}\\p{Script=Oriya}' +
  '\\p{Script=Tamil}\\p{Script=Telugu}\\p{Script=Kannada}\\p{Script=Malayalam}\\p{Script=Sinhala}\\p{Script=Khmer}\\p{Script=Myanmar}\\p{Script=Mongolian}]';
const NEEDED = `(?<=${PICTURE})\\u200d(?=\\p{Extended_Pictographic})|(?<=[\\p{Extended_Pictographic}0-9#*])\\ufe0f|(?<=${JOINING_LETTER})[\\u200c\\u200d]`;
const UNSAFE = new RegExp(`(?!${NEEDED})${HIDDEN}`, 'gu');
