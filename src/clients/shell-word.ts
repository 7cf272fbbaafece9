/** A path quoted as one shell word: in double quotes, or in single quotes if the shell would expand part of it. */
export function inShell(path: string): string {
  return /["$`\\!]/.test(path) ? `'${path.replaceAll("'", `'\\''`)}'` : `"${path}"`;
}

/** A text as one shell word, quoted only if necessary. */
export function shellWord(text: string): string {
  return /^[\w@%.:/+-]+$/.test(text) ? text : inShell(text);
}
