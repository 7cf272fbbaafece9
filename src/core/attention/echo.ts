import { unstamped, checkableIn } from './checkable.ts';
import { isOnlyThanks } from './thanks.ts';

/** The parts of a message that decide whether it is an echo. */
export interface Line {
  from?: string | undefined;
  to?: string | undefined;
  body: string;
}

/**
 * The share of the earlier text's words that the later text must have to be nearly the same. The later text may leave out one word in
 * twenty. It may add none: one new word makes a new text.
 */
const NEARLY_THE_SAME = 0.95;
/**
 * How many earlier messages are compared. Agents that go in circles repeat themselves within a few messages. The same short order or answer
 * after a longer time ("run the tests", "green") means something new.
 */
const LOOK_BACK = 6;
/** A longer text is an echo only of exactly the same text, so that the comparison stays cheap. */
const MOST_CHARACTERS = 4_000;

/** English words that add nothing to a sentence. In other languages every word counts. */
const FILLERS = new Set(
  (
    'well so right now ah oh fine ok okay hey hi hello dear and also then just please kindly do great good nice lovely ' +
    'splendid nicely rather many much happen to be am m yours best warmly regards'
  ).split(' '),
);
const THANKS = /\b(?:thank (?:you|u)|thanks|obliged)\b/g;
/** Words that turn a sentence into its opposite. A text that leaves one out is not nearly the same. */
const TURNS = new Set(
  (
    'no not never none nothing cannot without but except only stop wait yes t nicht kein keine keinen nie nein ja ' +
    'ne pas non jamais oui sans sin nunca sí não нет не ни да только'
  ).split(' '),
);

const MENTION = /@[\p{L}\p{N}._-]+/gu;
/** Letters of scripts without spaces between words. They are compared by pairs. */
const UNSPACED = String.raw`[[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Mymr}]&&[\p{L}\p{M}]]`;
const IS_UNSPACED = new RegExp(`^${UNSPACED}`, 'v');
/** Inline code is one word, including its signs: `a < b` is not `a > b`. */
const INLINE_CODE = '`[^`\n]+`';
const TOKEN = new RegExp(String.raw`${INLINE_CODE}|${UNSPACED}+|[[\p{L}\p{M}\p{N}]--${UNSPACED}]+`, 'gv');
/** An id or a commit. lineage.ts decides whether it is a new one. A short id of a message may have no digit: `deadbeef`. */
const HEX_ID = /^(?:(?=.*\d)[0-9a-f]{7,40}|[a-f]{8})$/;
const EMOJI = /\p{Extended_Pictographic}|\p{Regional_Indicator}/u;

/** The words of a text, without case, punctuation, digits and names. */
interface Gist {
  all: ReadonlySet<string>;
  /** The words of quoted lines. */
  quoted: ReadonlySet<string>;
  /** The words of all other lines. */
  own: ReadonlySet<string>;
}

/**
 * Does this message only repeat? It does if it is only thanks, a receipt or emoji, or nearly the same as one earlier message of its
 * exchange, or a quote of an earlier message that adds no new words. spec: c2a#echoes
 */
export function isEcho(said: Line, exchange: readonly Line[]): boolean {
  const earlier = exchange.slice(-LOOK_BACK);
  const text = said.body.trim();
  if (text === '') return false;
  if (isOnlyThanks(text) || earlier.some(({ body }) => body.trim() === text)) return true;
  if (text.length > MOST_CHARACTERS) return false;
  const names = namesIn([said, ...earlier]);
  const gist = gistOf(text, names);
  if (isOnlyEmoji(text, gist)) return true;
  const comparable = earlier.filter(({ body }) => body.length <= MOST_CHARACTERS);
  return repeatsOne(
    gist,
    comparable.map(({ body }) => gistOf(body, names)),
  );
}

/** Are these two texts the same, except for some additional words in one of them? A replaced word makes another text. */
export function isSameText(one: string, other: string, share: number): boolean {
  if (one.trim() === other.trim()) return true;
  if (one.length > MOST_CHARACTERS || other.length > MOST_CHARACTERS) return false;
  const [words, others] = [wordsIn(one, NO_NAMES), wordsIn(other, NO_NAMES)];
  return isNearlySame(words, others, share) || isNearlySame(others, words, share);
}

const NO_NAMES: ReadonlySet<string> = new Set();

function repeatsOne(gist: Gist, earlier: readonly Gist[]): boolean {
  if (gist.quoted.size === 0) return earlier.some((one) => isNearlySame(gist.all, one.all));
  const addsNothing = gist.own.size === 0 || earlier.some((one) => isNearlySame(gist.own, one.own));
  return addsNothing && earlier.some((one) => isNearlySame(gist.quoted, one.all) || isNearlySame(gist.all, one.all));
}

/** Is every word of the later text in the earlier one, and nearly every word of the earlier text in the later one? */
function isNearlySame(later: ReadonlySet<string>, earlier: ReadonlySet<string>, share = NEARLY_THE_SAME): boolean {
  if (later.size === 0 || later.size < share * earlier.size || !later.isSubsetOf(earlier)) return false;
  return later.size === earlier.size || [...earlier].every((word) => later.has(word) || !TURNS.has(word));
}

function isOnlyEmoji(text: string, { all }: Gist): boolean {
  return EMOJI.test(text) && !/\d/.test(unstamped(text)) && [...all].every((word) => FILLERS.has(word));
}

function gistOf(body: string, names: ReadonlySet<string>): Gist {
  const lines = body.split('\n');
  const isQuoted = (line: string): boolean => line.trimStart().startsWith('>');
  const quoted = lines.filter(isQuoted).map((line) => line.trimStart().slice(1));
  const all = wordsIn(body, names);
  if (quoted.length === 0) return { all, quoted: new Set(), own: all };
  const own = lines.filter((line) => !isQuoted(line)).join('\n');
  const ownWords = isOnlyThanks(own) ? new Set<string>() : wordsIn(own, names);
  return { all, quoted: wordsIn(quoted.join('\n'), names), own: ownWords };
}

/** The words that count. A text of fillers only keeps them: "right now" is not an empty text. */
function wordsIn(text: string, names: ReadonlySet<string>): ReadonlySet<string> {
  const plain = unstamped(text).normalize('NFKC').toLowerCase().replaceAll('’', "'").replace(MENTION, ' ');
  const words = new Set((plain.replace(THANKS, ' ').match(TOKEN) ?? []).flatMap(partsOf));
  for (const name of names) words.delete(name);
  const counting = new Set([...words].filter((word) => !FILLERS.has(word)));
  return counting.size > 0 ? counting : words;
}

function partsOf(token: string): string[] {
  if (IS_UNSPACED.test(token)) return pairsIn(token);
  if (HEX_ID.test(token)) return [];
  const word = token.replace(/\p{N}+/gu, '#');
  return word === '#' ? [] : [word];
}

function pairsIn(run: string): string[] {
  const signs = Array.from(run);
  return signs.length === 1 ? signs : signs.slice(1).map((sign, at) => `${signs[at]}${sign}`);
}

function namesIn(lines: readonly Line[]): Set<string> {
  const named = lines.flatMap(({ from = '', to = '' }) => [from, to.replace(/^@/, '')]);
  return new Set(named.map((name) => name.toLowerCase()));
}

/** The share of the longer text's words that the shorter text must have, for both to say the same. */
const ALIKE = 0.9;

/** Does this text say nearly the same as its author's last one? A new number or path makes it new. spec: c2a#repeats */
export function repeats(text: string, last: string): boolean {
  if (text.trim() === '') return false;
  const known = new Set(checkableIn(last).map(({ key }) => key));
  return checkableIn(text).every(({ key }) => known.has(key)) && isSameText(text, last, ALIKE);
}
