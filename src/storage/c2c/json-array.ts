/** The elements of a JSON array as text, and whether they were all that stood there, in order. */
export interface Elements {
  texts: string[];
  whole: boolean;
}

/** So often a search for the end of an element may come to nothing: a hostile file must not cost the square of its size. */
const PATIENCE = 50;

/**
 * Cuts the text of a JSON array into its elements without parsing them: what is written back stays as it was, to the digit. Of a
 * text that is cut off or damaged, all objects that are whole are found.
 */
export function elements(text: string): Elements {
  const texts: string[] = [];
  let at = blanks(text, 0);
  if (text[at] !== '[') return { texts: saved(text, at), whole: false };
  at = blanks(text, at + 1);
  if (text[at] === ']') return finished(text, at + 1, texts);
  for (;;) {
    const end = endOfValue(text, at);
    if (end === -1) break;
    texts.push(text.slice(at, end));
    const next = blanks(text, end);
    if (text[next] === ']') return finished(text, next + 1, texts);
    if (text[next] !== ',') {
      at = next;
      break;
    }
    at = blanks(text, next + 1);
  }
  return { texts: [...texts, ...saved(text, at)], whole: false };
}

/** After the array nothing may follow. If something does, what can be saved of it is. */
function finished(text: string, at: number, texts: string[]): Elements {
  const end = blanks(text, at);
  return end === text.length ? { texts, whole: true } : { texts: [...texts, ...saved(text, end)], whole: false };
}

/** All whole objects from here on; those of lists inside an object that stands in the place of the array too. */
export function saved(text: string, from: number): string[] {
  const texts: string[] = [];
  let failed = 0;
  for (let at = text.indexOf('{', from); at !== -1 && failed < PATIENCE;) {
    const end = endOfValue(text, at);
    const whole = end !== -1 && isJson(text.slice(at, end));
    if (whole) texts.push(text.slice(at, end));
    else failed += 1;
    at = text.indexOf('{', whole ? end : at + 1);
  }
  return texts;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
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
