import { isTooDeep } from '../../protocol/depth.ts';

/** A JSON array: its values, and for each its text as it stands in the file, so that it can be written back to the digit. */
export interface JsonList {
  values: unknown[];
  texts: string[];
  /** What is wrong with the text; `values` is then what could be saved. */
  broken?: string | undefined;
}

const NOT_WHOLE = 'it is no whole JSON array';
/** Failed searches for the end of an object: a hostile file must not cost the square of its size. */
const MAX_FAILED = 50;

/** Reads what can be read of a JSON array. Of a text that is cut off or damaged, all objects that are whole are found. */
export function listIn(bytes: Buffer): JsonList {
  const text = bytes.toString('utf8').replace(/^\uFEFF/u, '');
  if (text.trim() === '') return { values: [], texts: [], ...(text !== '' && { broken: 'it holds only blanks' }) };
  const { texts, whole } = elements(text);
  const list: JsonList = { values: [], texts: [], broken: whole ? undefined : NOT_WHOLE };
  // Bytes that are no UTF-8 become this character.
  if (text.includes('\uFFFD') && !Buffer.from(bytes.toString('utf8')).equals(bytes)) list.broken = 'it is not UTF-8';
  for (const element of texts) {
    const value = parsed(element);
    if (value === undefined) list.broken = NOT_WHOLE;
    for (const part of value === undefined ? objectsIn(element, 1) : [element]) {
      const found = value ?? parsed(part);
      if (isTooDeep(found)) list.broken = 'a part of it is nested too deeply';
      else {
        list.values.push(found);
        list.texts.push(part);
      }
    }
  }
  return list;
}

/** The value of a JSON text; undefined if it is none. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Cuts the text of an array into its elements without parsing them. `whole`: they are all that stands there, in order. */
function elements(text: string): { texts: string[]; whole: boolean } {
  const texts: string[] = [];
  let at = blanks(text, 0);
  if (text[at] === '[') {
    let next = blanks(text, at + 1);
    let isEnd = text[next] === ']';
    while (!isEnd) {
      at = next;
      const end = endOfValue(text, at);
      if (end === -1) break;
      texts.push(text.slice(at, end));
      at = blanks(text, end);
      isEnd = text[at] === ']';
      if (isEnd) next = at;
      else if (text[at] === ',') next = blanks(text, at + 1);
      else break;
    }
    if (isEnd) at = blanks(text, next + 1);
    if (isEnd && at === text.length) return { texts, whole: true };
  }
  return { texts: [...texts, ...objectsIn(text, at)], whole: false };
}

/** All whole objects from here on. */
function objectsIn(text: string, from: number): string[] {
  const texts: string[] = [];
  let failed = 0;
  for (let at = text.indexOf('{', from); at !== -1 && failed < MAX_FAILED;) {
    const end = endOfValue(text, at);
    const whole = end !== -1 && parsed(text.slice(at, end)) !== undefined;
    if (whole) texts.push(text.slice(at, end));
    else failed += 1;
    at = text.indexOf('{', whole ? end : at + 1);
  }
  return texts;
}

/** Where the value ends that begins here; -1 if it does not. Strings are passed over by search: they are nearly all of the text. */
function endOfValue(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0x22) {
      at = endOfString(text, at);
      if (at === -1) return -1;
    } else if (code === 0x7b || code === 0x5b) depth += 1;
    else if (code === 0x7d || code === 0x5d) {
      // The end of what is around a number or a word.
      if (depth === 0) return at === start ? -1 : at;
      depth -= 1;
    } else if (code === 0x2c && depth === 0) return at === start ? -1 : at;
    if (depth === 0 && (code === 0x22 || code === 0x7d || code === 0x5d)) return at + 1;
  }
  return -1;
}

/** The place of the closing quote. */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let slashes = 0;
    while (text.charCodeAt(at - 1 - slashes) === 0x5c) slashes += 1;
    if (slashes % 2 === 0) return at;
  }
  return -1;
}

function blanks(text: string, from: number): number {
  let at = from;
  while (at < text.length && ' \t\r\n'.includes(text.charAt(at))) at += 1;
  return at;
}
