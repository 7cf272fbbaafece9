/** Something that we put into a text: where in the text as it was before, and what. */
export interface Insertion {
  at: number;
  text: string;
}

/** A text without something of ours. `gone`: it was not there; `changed`: it is no longer as we wrote it, and was left. */
export type Removal = { text: string } | 'gone' | 'changed';

/** The text with these put in. They stand in the order of their places. */
export function inserted(text: string, insertions: readonly Insertion[]): string {
  let done = 0;
  let result = '';
  for (const { at, text: added } of insertions) {
    result += text.slice(done, at) + added;
    done = at;
  }
  return result + text.slice(done);
}

/** The text without them: the exact inverse. Null if one of them is not in its place any more. */
export function takenOut(text: string, insertions: readonly Insertion[]): string | null {
  let done = 0;
  let shift = 0;
  let result = '';
  for (const { at, text: added } of insertions) {
    const from = at + shift;
    if (!text.startsWith(added, from)) return null;
    result += text.slice(done, from);
    shift += added.length;
    done = from + added.length;
  }
  return result + text.slice(done);
}

/** As the text ends its lines. */
export function lineEndOf(text: string): '\r\n' | '\n' {
  return text.includes('\r\n') ? '\r\n' : '\n';
}
