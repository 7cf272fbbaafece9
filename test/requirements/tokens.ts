// Just enough of a TypeScript lexer to tell a test's title from a comment, a pattern or any other text.

export interface Token {
  kind: 'word' | 'text' | 'sign';
  /** As written, quotes included. */
  value: string;
}

const GAP = /(?:\s+|\/\/[^\n]*|\/\*[\s\S]*?\*\/)+/y;
const WORD = /[\p{ID_Continue}$]+/uy;
const QUOTED = /'(?:[^'\\\n]|\\[\s\S])*'|"(?:[^"\\\n]|\\[\s\S])*"/y;
const PATTERN = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/\w*/y;
const SIGN = /=>|[=!]==?|[\s\S]/y;

/** Words after which a slash begins a pattern, not a division. */
const BEFORE_A_VALUE = new Set(['return', 'typeof', 'case', 'await', 'yield', 'of', 'in', 'void']);

/** The words, texts and signs of a source file, in order. Comments and regular expressions are left out. */
export function tokens(source: string): Token[] {
  const found: Token[] = [];
  let at = 0;
  const next = (pattern: RegExp): string | null => {
    const value = match(pattern, source, at);
    at += value?.length ?? 0;
    return value;
  };
  while (at < source.length) {
    if (next(GAP)) continue;
    if (startsValue(found.at(-1)) && next(PATTERN)) continue;
    const word = next(WORD);
    if (word) found.push({ kind: 'word', value: word });
    else found.push(textOrSign());
  }
  return found;

  function textOrSign(): Token {
    const start = at;
    if (source[at] === '`') at = templateEnd(source, at + 1);
    else if (!next(QUOTED)) return { kind: 'sign', value: next(SIGN) ?? '' };
    return { kind: 'text', value: source.slice(start, at) };
  }
}

function match(pattern: RegExp, source: string, at: number): string | null {
  pattern.lastIndex = at;
  return pattern.exec(source)?.[0] ?? null;
}

function startsValue(before: Token | undefined): boolean {
  if (!before) return true;
  if (before.kind === 'word') return BEFORE_A_VALUE.has(before.value);
  return before.kind === 'sign' && !')]}'.includes(before.value);
}

/** Where a template ends whose text begins at `at`. */
function templateEnd(source: string, at: number): number {
  while (at < source.length) {
    if (source[at] === '`') return at + 1;
    if (source.startsWith('${', at)) at = holeEnd(source, at + 2);
    else at += source[at] === '\\' ? 2 : 1;
  }
  return at;
}

/** Where a `${…}` inside a template ends whose code begins at `at`. */
function holeEnd(source: string, at: number): number {
  for (let depth = 1; depth > 0 && at < source.length;) {
    const char = source[at];
    const quoted = match(QUOTED, source, at);
    if (char === '`') at = templateEnd(source, at + 1);
    else at += quoted?.length ?? 1;
    if (char === '{') depth += 1;
    if (char === '}') depth -= 1;
  }
  return at;
}
