import { checkableIn } from './checkable.ts';

const WORD = /[\p{L}\p{N}]+(?:['’][\p{L}]+)?/gu;
/** A single one of these can turn a sentence round. */
const TURNS =
  /^(?:no|not|never|none|nothing|cannot|without|but|except|yes|ok|stop|wait|\p{L}+n['’]t|\p{L}*\p{N}\p{L}*)$/u;
/** How much of two texts must be the same words for them to say the same. */
const ALIKE = 0.8;

/** Does this text say nearly the same as the one that its author sent before it? spec: c2a#repeats */
export function repeats(text: string, last: string): boolean {
  const [said, before] = [wordsIn(text), wordsIn(last)];
  if (said.length === 0 || before.length === 0) return text.trim() !== '' && text.trim() === last.trim();
  const known = new Set(checkableIn(last).map(({ key }) => key));
  if (checkableIn(text).some(({ key }) => !known.has(key))) return false;
  const left = countOf(before);
  let shared = 0;
  for (const word of said) {
    const count = left.get(word) ?? 0;
    if (count > 0) shared += 1;
    else if (TURNS.test(word)) return false;
    left.set(word, count - 1);
  }
  for (const [word, count] of left) if (count > 0 && TURNS.test(word)) return false;
  return shared / Math.max(said.length, before.length) >= ALIKE;
}

function wordsIn(text: string): string[] {
  return text.toLowerCase().match(WORD) ?? [];
}

function countOf(words: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
