import { checkableIn } from './checkable.ts';
import { isSameText } from './echo.ts';

/** How much of the longer of two texts must be in the shorter one for them to say the same. */
const ALIKE = 0.9;

/** Does this text say nearly the same as the one that its author sent before it? A new number or path makes it new. spec: c2a#repeats */
export function repeats(text: string, last: string): boolean {
  if (text.trim() === '') return false;
  const known = new Set(checkableIn(last).map(({ key }) => key));
  return checkableIn(text).every(({ key }) => known.has(key)) && isSameText(text, last, ALIKE);
}
