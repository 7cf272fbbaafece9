import { isTooDeep } from '../../core/message.ts';

/** A JSON array: its values, and the exact text of each value, so that it can be written back unchanged. */
export interface JsonList {
  values: unknown[];
  texts: string[];
  /** What is wrong with the file. Then `values` has what could be recovered. */
  broken?: string | undefined;
  /** The text before and after the array, if it is a member of an object. */
  around?: [before: string, after: string];
}

/** The most failed searches for the end of an object, per damaged part: a hostile file must not cost quadratic time. */
const MAX_FAILED = 50;
const NOT_UTF8 = 'it is not UTF-8';

/** Reads a JSON array: the whole file, or this member of the object in the file. */
export function listOrMemberIn(bytes: Buffer, member: string): JsonList {
  const text = textOf(bytes);
  const place = placeOfMember(text, member);
  if (!place || text[place.start] !== '[') return listIn(bytes);
  const list = listIn(Buffer.from(text.slice(place.start, place.end)));
  if (jsonValue(text) === undefined) return { ...list, broken: 'it is not a whole JSON object' };
  return {
    ...list,
    broken: isUtf8(bytes) ? list.broken : NOT_UTF8,
    around: [text.slice(0, place.start), text.slice(place.end)],
  };
}

/** Reads a JSON array. From a text that is cut off, damaged or not an array, it recovers all whole objects. */
export function listIn(bytes: Buffer): JsonList {
  const text = textOf(bytes);
  if (text.trim() === '') return { values: [], texts: [], ...(text !== '' && { broken: 'it holds only blanks' }) };
  const whole = jsonValue(text);
  const texts = Array.isArray(whole) ? elements(text) : elements(text).flatMap(recovered);
  const values: unknown[] = Array.isArray(whole) ? whole : texts.map(jsonValue);
  const broken = Array.isArray(whole) ? undefined : 'it is not a whole JSON array';
  const isFlat = values.map((value) => !isTooDeep(value));
  return {
    values: values.filter((_, at) => isFlat[at]),
    texts: texts.filter((_, at) => isFlat[at]),
    broken: isUtf8(bytes) ? (isFlat.includes(false) ? 'a part of it is nested too deeply' : broken) : NOT_UTF8,
  };
}

function textOf(bytes: Buffer): string {
  return bytes.toString('utf8').replace(/^\uFEFF/u, '');
}

/** The value of a JSON text; undefined if it is not JSON. */
export function jsonValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether the bytes are valid UTF-8: invalid bytes become U+FFFD, which does not convert back. */
function isUtf8(bytes: Buffer): boolean {
  const text = bytes.toString('utf8');
  return !text.includes('\uFFFD') || Buffer.from(text).equals(bytes);
}

/** The texts of the elements of a JSON array. Where the array is damaged, the texts of all whole objects in the rest. */
function elements(text: string): string[] {
  const texts: string[] = [];
  let at = skipBlanks(text, 0);
  let isNext = text[at] === '[';
  while (isNext) {
    // After the bracket or the comma.
    at = skipBlanks(text, at + 1);
    const end = endOfValue(text, at);
    if (end === -1) break;
    texts.push(text.slice(at, end).trimEnd());
    at = skipBlanks(text, end);
    isNext = text[at] === ',';
  }
  return [...texts, ...objectsIn(text.slice(at))];
}

/** The place of a member's value in the text of an object; null if there is none. Of two members with one name the last counts, as in `JSON.parse`. */
function placeOfMember(text: string, member: string): { start: number; end: number } | null {
  let place: { start: number; end: number } | null = null;
  let at = skipBlanks(text, 0);
  let isNext = text[at] === '{';
  while (isNext) {
    const key = skipBlanks(text, at + 1);
    const colon = skipBlanks(text, endOfString(text, key) + 1);
    if (text[key] !== '"' || text[colon] !== ':') break;
    const start = skipBlanks(text, colon + 1);
    const end = endOfValue(text, start);
    if (end === -1) break;
    if (jsonValue(text.slice(key, colon)) === member) place = { start, end };
    at = skipBlanks(text, end);
    isNext = text[at] === ',';
  }
  return place;
}

/** The element itself if it is valid JSON; else the whole objects in it. */
function recovered(element: string): string[] {
  return jsonValue(element) === undefined ? objectsIn(element.slice(1)) : [element];
}

/** The texts of all whole objects in a text that is not JSON. */
function objectsIn(text: string): string[] {
  const texts: string[] = [];
  let failed = 0;
  for (let at = text.indexOf('{'); at !== -1 && failed < MAX_FAILED;) {
    const end = endOfValue(text, at);
    const whole = end !== -1 && jsonValue(text.slice(at, end)) !== undefined;
    if (whole) texts.push(text.slice(at, end));
    else failed += 1;
    at = text.indexOf('{', whole ? end : at + 1);
  }
  return texts;
}

/** The end of the value that begins here; -1 if no value begins here or it does not end. Skips strings by search, because most of the text is strings. */
function endOfValue(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    const char = text[at];
    if (char === '"') {
      at = endOfString(text, at);
      if (at === -1) return -1;
      if (depth === 0) return at + 1;
    } else if (char === '{' || char === '[') depth += 1;
    else if (char === '}' || char === ']') {
      // The end of the list around a number or a word.
      if (depth === 0) return at === start ? -1 : at;
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (char === ',' && depth === 0) return at === start ? -1 : at;
  }
  return -1;
}

/** The index of the closing quote; -1 if there is none. */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let slashes = 0;
    while (text[at - 1 - slashes] === '\\') slashes += 1;
    if (slashes % 2 === 0) return at;
  }
  return -1;
}

function skipBlanks(text: string, from: number): number {
  let at = from;
  while (at < text.length && ' \t\r\n'.includes(text.charAt(at))) at += 1;
  return at;
}
