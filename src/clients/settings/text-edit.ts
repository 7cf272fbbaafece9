/** A settings file that cannot be changed safely. It is left unchanged, and the message says why. */
export class NotEditable extends Error {}

/** Another program wrote the file after we read it. A second try may succeed. */
export class ChangedMeanwhile extends NotEditable {}

/** A text to insert, and its position in the text before the edit. */
export interface Insertion {
  at: number;
  text: string;
}

/** A text without our addition. `gone`: the addition was not there. `changed`: it is no longer as we wrote it, so it was left. */
export type Removal = { text: string } | 'gone' | 'changed';

/** The text with these insertions, which are in the order of their positions. */
export function inserted(text: string, insertions: readonly Insertion[]): string {
  let done = 0;
  let result = '';
  for (const { at, text: added } of insertions) {
    result += text.slice(done, at) + added;
    done = at;
  }
  return result + text.slice(done);
}

/** The exact inverse of `inserted`. Null if an inserted text is no longer at its position. */
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

/** The line end that the text uses. */
export function lineEndOf(text: string): '\r\n' | '\n' {
  return text.includes('\r\n') ? '\r\n' : '\n';
}
