import { Refusal } from '../protocol/refusal.ts';

/** More than this is not typed into a terminal. */
export const PASTE_LIMIT = 4 * 1024 * 1024;

// oxlint-disable-next-line no-control-regex -- these are what must not get through.
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;

/**
 * Refuses a text that could leave its brackets: an escape sequence ends a paste, a carriage return is an Enter, and a NUL or Ctrl-C
 * is a key. A terminal cannot quote them, so they do not go in. Whoever wants them to be seen makes them visible first.
 */
export function pasteable(text: string): void {
  const found = CONTROL.exec(text);
  if (found) {
    const code = (found[0].codePointAt(0) ?? 0).toString(16).padStart(4, '0');
    throw new Refusal('invalid_request', `a text with the control character U+${code} is not typed into a terminal`);
  }
  if (!text.isWellFormed())
    throw new Refusal('invalid_request', 'a text with half a character is not typed into a terminal');
  if (Buffer.byteLength(text) > PASTE_LIMIT)
    throw new Refusal('too_large', `at most ${PASTE_LIMIT} bytes are typed into a terminal`);
}
