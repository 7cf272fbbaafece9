// Which tests cite which requirements.
//
// A citation is one id, or several with commas between, in square brackets in the title of a test:
// `it('lets exactly one reader win [BC-6, BC-10]', …)`. The rows of `it.each` belong to the title, written in place or
// as a constant of the same file. A test that is skipped or still to do may cite, but proves nothing. The title of a
// `describe` is not the title of a test.
import { REQUIREMENTS, SYSTEMS } from '../requirements.ts';
import { type Token, tokens } from './tokens.ts';

export interface Citation {
  id: string;
  file: string;
  /** False for a test that never runs. */
  proves: boolean;
}

export interface Coverage {
  proven: number;
  total: number;
  unproven: string[];
}

/** Reads every test and contract below a project folder. */
export async function readCitations(root: string): Promise<{ files: string[]; citations: Citation[] }> {
  const found = await Array.fromAsync(new Bun.Glob('{src,test,plugins}/**/*.{test,contract}.ts').scan({ cwd: root }));
  const files = found.filter((file) => !file.includes('node_modules')).sort();
  const citations = await Promise.all(
    files.map(async (file) => citationsIn(await Bun.file(`${root}/${file}`).text(), file)),
  );
  return { files, citations: citations.flat() };
}

/** For each system how many of its requirements some test proves, and which ones none does. */
export function coverage(citations: Citation[]): Record<string, Coverage> {
  const proven = new Set(citations.filter((citation) => citation.proves).map((citation) => citation.id));
  const of = (prefix: string): Coverage => {
    const ids = Object.keys(REQUIREMENTS).filter((id) => id.startsWith(prefix));
    const unproven = ids.filter((id) => !proven.has(id));
    return { proven: ids.length - unproven.length, total: ids.length, unproven };
  };
  return Object.fromEntries(SYSTEMS.map(({ name, prefix }) => [name, of(prefix)]));
}

/** The citations in the text of one test file. */
export function citationsIn(source: string, file: string): Citation[] {
  const all = tokens(source);
  const constants = constantsIn(all);
  const runners = new Set([
    'it',
    'test',
    ...constants
      .entries()
      .filter(isRunner)
      .map(([name]) => name),
  ]);
  return all.flatMap((token, at) => {
    if (token.kind !== 'word' || !runners.has(token.value) || all[at - 1]?.value === '.') return [];
    const call = callAt(all, at);
    const proves = !call.modifiers.includes('skip') && !call.modifiers.includes('todo');
    return titleTexts(call, constants)
      .flatMap(idsIn)
      .map((id) => ({ id, file, proves }));
  });
}

/** A bracket counts as soon as one entry looks like an id, so that a misspelt neighbour is noticed. */
function idsIn(text: string): string[] {
  const lists = text.matchAll(/\[([^[\]]*)\]/g).map(([, list = '']) => list.split(',').map((id) => id.trim()));
  const looksLikeAnId = (id: string) => SYSTEMS.some(({ prefix }) => id.startsWith(prefix));
  return lists
    .filter((ids) => ids.some(looksLikeAnId))
    .toArray()
    .flat();
}

/** Every `const name = …;` of the file with the tokens after its equals sign. */
function constantsIn(all: Token[]): Map<string, Token[]> {
  const found = new Map<string, Token[]>();
  all.forEach((token, at) => {
    const name = all[at + 1];
    if (token.value !== 'const' || name?.kind !== 'word') return;
    const equals = all.findIndex(({ value }, i) => i > at && value === '=');
    if (equals !== -1) found.set(name.value, upTo(';', all.slice(equals + 1)));
  });
  return found;
}

/** `const onLinux = it.skipIf(…)` is one more way to begin a test; a function that contains tests is not. */
function isRunner([, value]: [string, Token[]]): boolean {
  const has = (word: string) => value.some((token) => token.kind !== 'text' && token.value === word);
  return (has('it') || has('test')) && !has('=>') && !has('function');
}

interface Call {
  modifiers: string[];
  /** What stands in each pair of brackets, and the modifier right before it. */
  groups: { after: string; inside: Token[] }[];
}

/** Follows a call such as `it.skipIf(…).each(rows)('title', …)` to its last bracket. */
function callAt(all: Token[], at: number): Call {
  const call: Call = { modifiers: [], groups: [] };
  let after = '';
  let next = at + 1;
  for (;;) {
    const sign = all[next]?.value;
    if (sign !== '.' && sign !== '<' && sign !== '(') return call;
    const end = sign === '.' ? next + 1 : closing(all, next);
    if (sign === '(') call.groups.push({ after, inside: all.slice(next + 1, end) });
    if (sign === '(') after = '';
    if (sign === '.') call.modifiers.push((after = all[end]?.value ?? ''));
    next = end + 1;
  }
}

/** The texts that make up a title: the first argument of the last bracket, and the rows of `each`. */
function titleTexts({ groups }: Call, constants: Map<string, Token[]>): string[] {
  const rows = groups.slice(0, -1).flatMap(({ after, inside }) => (after === 'each' ? inside : []));
  const spelledOut = rows.flatMap((token) => (token.kind === 'word' && constants.get(token.value)) || [token]);
  const title = upTo(',', groups.at(-1)?.inside ?? []);
  return [...spelledOut, ...title].filter(({ kind }) => kind === 'text').map(({ value }) => value);
}

const CLOSERS: Record<string, string> = { '(': ')', '[': ']', '{': '}', '<': '>' };

/** Where the bracket that opens at `open` is closed. */
function closing(all: Token[], open: number): number {
  const opener = all[open]?.value ?? '';
  let depth = 0;
  for (let at = open; at < all.length; at += 1) {
    if (all[at]?.value === opener) depth += 1;
    if (all[at]?.value === CLOSERS[opener]) depth -= 1;
    if (depth === 0) return at;
  }
  return all.length;
}

/** The tokens before the first `end` that stands outside all brackets. */
function upTo(end: string, all: Token[]): Token[] {
  for (let at = 0; at < all.length; at += 1) {
    const sign = all[at]?.value ?? '';
    if (sign === end) return all.slice(0, at);
    if (sign === '(' || sign === '[' || sign === '{') at = closing(all, at);
  }
  return all;
}
