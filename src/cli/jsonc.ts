/** Reads JSON in which people may write comments and trailing commas. Strings are left alone. */
export function parseJsonc(text: string): unknown {
  try {
    // Plain JSON, as most are, needs no second look.
    return JSON.parse(text);
  } catch {
    return JSON.parse(withoutTrailingCommas(withoutComments(text)));
  }
}

/** Comments become blanks of the same length, so that every other character keeps its place. */
export function withoutComments(text: string): string {
  const blank = (part: string): string => (part.startsWith('"') ? part : part.replace(/[^\r\n]/g, ' '));
  // Some editors begin a file with a byte order mark.
  return text.replace(/^\ufeff|"(?:\\.|[^"\\])*"|\/\/[^\r\n]*|\/\*[\s\S]*?(?:\*\/|$)/g, blank);
}

/** A comma counts as trailing only after a value: `{,}` stays wrong. */
function withoutTrailingCommas(text: string): string {
  return text.replace(/"(?:\\.|[^"\\])*"|(?<![{[,:]\s*),(?=\s*[}\]])/g, (part) => (part === ',' ? ' ' : part));
}
