// Bodies are untrusted and may be 256 KB, so everything here takes time linear in the length of the text.

// Backticks later in the line make it inline code, not a fence.
const FENCE = /^[ \t>]*(`{3,}(?=[^`]*$)|~{3,})/;
const INLINE_CODE = /`+[^`\n]*`+/g;
const URL_IN_TEXT = /\bhttps?:\/\/\S+/gi;
const PUNCTUATION = '.,;:!?-_*\'"’”…';

/** Splits a body into its prose and its fenced blocks. A fence that is never closed runs to the end, as in Markdown. */
export function splitCode(body: string): { prose: string; blocks: string[] } {
  const prose: string[] = [];
  const blocks: string[][] = [];
  let open = '';
  for (const line of body.split('\n')) {
    const mark = FENCE.exec(line)?.[1] ?? '';
    if (!open && mark) blocks.push([]);
    else if (!open) prose.push(line);
    else if (!mark.startsWith(open)) blocks.at(-1)?.push(line);
    if (!open) open = mark;
    else if (mark.startsWith(open)) open = '';
  }
  return { prose: prose.join('\n'), blocks: blocks.map((lines) => lines.join('\n')) };
}

/** The author's own words: the text without code, links and quoted lines. */
export function plainWords(body: string): string {
  return withoutQuotes(splitCode(body).prose).replace(INLINE_CODE, ' ').replace(URL_IN_TEXT, ' ');
}

/** Drops the lines that repeat what someone else said. */
export function withoutQuotes(text: string): string {
  const lines = text.split('\n');
  return lines.filter((line) => !line.trimStart().startsWith('>')).join('\n');
}

/** Cuts sentence marks off the end. A loop, because `/[.]+$/` is quadratic on a long run of dots. */
export function trimPunctuation(token: string): string {
  let end = token.length;
  while (end > 0 && PUNCTUATION.includes(token.charAt(end - 1))) end -= 1;
  return token.slice(0, end);
}

// A letter or digit before the @ makes it an e-mail address or `package@version`; `@scope/package` names a package.
const MENTION = /(?<![\p{L}\p{N}_])@([A-Za-z0-9][A-Za-z0-9._-]*)(?![A-Za-z0-9._-]|\/[A-Za-z0-9])/gu;

/** The names after an @, each once, in order. Names in code, links and quoted lines do not count. spec: c2a#mentions */
export function mentionsIn(body: string): string[] {
  const names = [...plainWords(body).matchAll(MENTION)].map(([, name = '']) => trimPunctuation(name));
  return [...new Set(names)];
}

/** The names that a message mentions: those that its surface gave, else those in its text. spec: c2a#mentions */
export function calledIn({ body, parley }: Called): readonly string[] {
  return parley?.mentions ?? (body.includes('@') ? mentionsIn(body) : []);
}

interface Called {
  body: string;
  parley?: { mentions?: readonly string[] | undefined } | undefined;
}
