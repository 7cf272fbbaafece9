import { splitCode, trimPunctuation } from './text.ts';

/** Something that a reader can check. Its key is the same for the same fact in other words. */
export interface Checkable {
  key: string;
  /** For numbers only: the value, and the skeleton of the line or sentence around it. */
  counter?: { value: number; sentence: string };
}

// Ids, dates, clock times, Unix times and list numbers do not count as facts: every message can carry a fresh one.
const STAMPS: readonly RegExp[] = [
  /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi,
  /\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?\b/g,
  /(?<![\w:.])\d{1,2}:\d\d(?::\d\d)?(?![\w:])/g,
  /(?<![\w.])1\d{9}(?:\d{3})?(?:\.\d{1,9})?(?![\w.])/g,
  /^[ \t>]*\d{1,3}[.)](?=\s)/gm,
];

/** Words that add nothing to a sentence. */
const SMALL_WORDS = new Set(
  'well so right now ah oh fine ok okay yes hey hi hello and also again then just still please here there'.split(' '),
);
const SENTENCE_END = /(?<=[.!?])\s|\n/;
const BETWEEN_TOKENS = /[\s"'`()[\]{}<>;|*]+|,(?!\d)/;
/** Every link, path, commit and number contains one of these characters. */
const MAY_BE_CHECKED = /[0-9/.]/;
const LINK = /^https?:\/\/./i;
const COMMIT = /^(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}$/i;
const ROOTED_PATH = /^(?:~|\.{1,2})?\/[\w.@+-]/;
const DEEP_PATH = /^(?=.*[A-Za-z])[\w.@+-]+(?:\/[\w.@+-]+){2,}\/?(?::\d+)*$/;
const FILE_ENDINGS = [
  '[cm]?[jt]sx?|json[cl]?|md|txt|py|rs|go|java|kt|swift|[ch](?:pp|s)?|rb|php|sh|lua|zig|exs?|ml|sql|proto|tf',
  'ya?ml|toml|ini|lock|env|xml|csv|log|html?|s?css|vue|svelte|png|svg',
];
const FILE_NAME = new RegExp(`\\.(?:${FILE_ENDINGS.join('|')})(?::\\d+)*$`, 'i');
const NUMBER = /^[#~v$€£+-]?(\d[\d,_]*(?:\.\d+)*)(?:%|[kmgt]?i?b|[kmx]|[mµun]?s|h|min)?$/i;
// Characters that code has and prose does not: a fence around "thank you" is not code.
const CODE = /[{}[\]=;<>$|\\_#]|\w\(/;

/**
 * The refs, links, paths, commits, numbers and code blocks of a message. The digits of a code block are ignored, so that a new counter does
 * not make a new block. Everything else is wording. spec: c2a#novelty
 */
export function checkableIn(body: string, refs: readonly string[] = []): Checkable[] {
  const text = unstamped(body);
  return [
    ...refs.map(unstamped).flatMap((ref) => (ref.trim() ? [pointer(ref.trim()) ?? { key: `ref:${ref.trim()}` }] : [])),
    ...splitCode(text)
      .blocks.filter((block) => CODE.test(block))
      .map((block) => ({ key: `code:${blanked(block)}` })),
    ...text.split(SENTENCE_END).flatMap(inSentence),
  ];
}

function inSentence(text: string): Checkable[] {
  if (!MAY_BE_CHECKED.test(text)) return [];
  // Computed once for all numbers of a sentence: a hostile sentence may have a hundred thousand.
  let skeleton: string | undefined;
  const sentence = (): string => (skeleton ??= skeletonOf(text));
  return text.split(BETWEEN_TOKENS).flatMap((raw) => {
    const token = trimPunctuation(raw);
    // Skips nearly every word.
    if (!MAY_BE_CHECKED.test(token)) return [];
    return pointer(token) ?? token.split(/[=:/]/).flatMap((part) => commit(part) ?? number(part, sentence) ?? []);
  });
}

/** A link, path or commit. Its key does not depend on its place: a path that moves from the body to the refs is not new. */
function pointer(token: string): Checkable | undefined {
  if (LINK.test(token)) return { key: `link:${token}` };
  if (ROOTED_PATH.test(token) || DEEP_PATH.test(token) || FILE_NAME.test(token)) return { key: `path:${token}` };
  return commit(token);
}

function commit(token: string): Checkable | undefined {
  // The key has seven digits, so that the short and the long form of a commit are one fact.
  return COMMIT.test(token) ? { key: `commit:${token.slice(0, 7).toLowerCase()}` } : undefined;
}

function number(token: string, sentence: () => string): Checkable | undefined {
  const digits = NUMBER.exec(token)?.[1]?.replace(/[,_]/g, '');
  if (digits === undefined) return undefined;
  return { key: `number:${digits}`, counter: { value: Number(digits), sentence: sentence() } };
}

export function unstamped(text: string): string {
  if (!/[0-9]/.test(text)) return text;
  return STAMPS.reduce((rest, stamp) => rest.replace(stamp, ' '), text);
}

/** A sentence without punctuation and small words, and with # for numbers: the same for "ping 7" and "well, ping 8!!". */
function skeletonOf(text: string): string {
  const words = blanked(text).match(/[\p{L}#]+/gu) ?? [];
  return words.filter((word) => !SMALL_WORDS.has(word)).join(' ');
}

function blanked(text: string): string {
  return text.toLowerCase().replace(/\d+/g, '#').replace(/\s+/g, ' ').trim();
}
