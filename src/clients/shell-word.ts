/** A path as one word for a shell, in double quotes as people write it, unless something in it would mean more there. */
export function inShell(path: string): string {
  return /["$`\\!]/.test(path) ? `'${path.replaceAll("'", `'\\''`)}'` : `"${path}"`;
}

/** The same, without quotes where none are needed. */
export function shellWord(text: string): string {
  return /^[\w@%.:/+-]+$/.test(text) ? text : inShell(text);
}
