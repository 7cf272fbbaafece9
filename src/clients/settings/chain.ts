import { editFor, textWithout } from './addition.ts';
import type { Content } from './addition.ts';
import { inserted, takenOut } from './insertions.ts';
import { hashOf } from './manifest.ts';
import type { Noted } from './manifest.ts';
import { NotEditable } from './not-editable.ts';

/** A file without one of the things that we put there. The text is null if there should be no file. */
export interface Less {
  text: string | null;
  /** What is still noted about it, as it stands there now. */
  notes: Noted[];
}

/** What of this is in the file: a note that was written before a crash, and never carried out, is not. */
export function carriedOut(notes: readonly Noted[], text: string): Noted[] {
  const last = notes.findLastIndex(({ left }) => left === hashOf(text));
  return last < 0 ? [...notes] : notes.slice(0, last + 1);
}

/**
 * The file without one thing of ours, among others of ours and of other people. While nobody else has changed the file, it becomes
 * byte for byte what it would be had that thing never been there: what came after it is taken out too, and put in anew. Otherwise
 * only that thing goes, and only if it is still as we wrote it.
 */
export function without(
  notes: readonly Noted[],
  gone: Noted,
  text: string,
  created: boolean,
): Less | 'gone' | 'changed' {
  const there = carriedOut(notes, text);
  if (!there.includes(gone)) return 'gone';
  const exact = there.at(-1)?.left === hashOf(text) ? rebuilt(there, there.indexOf(gone), text) : null;
  if (exact) return orNoFile(exact, created);
  const inner = there.filter((one) => isInside(one, gone));
  const bare = withoutAll(inner, text);
  const outer = bare === null ? 'changed' : textWithout(gone.content, gone.edit, bare);
  if (typeof outer === 'string') return outer;
  const result = putAgain(inner, outer.text);
  const left = there
    .filter((one) => one !== gone)
    .map((one) => inheriting(result.notes[inner.indexOf(one)] ?? one, gone));
  return orNoFile({ text: result.text, notes: left }, created);
}

/** A file that we made goes when nothing is left in it. Others may have written to it since, also before our last change. */
function orNoFile({ text, notes }: Less, created: boolean): Less {
  const isBlank = /^\s*(?:\{\s*\}\s*)?$/.test(text ?? '');
  return { text: created && isBlank && notes.length === 0 ? null : text, notes };
}

/** Is this a table of ours inside a table that is ours too? Then the outer one cannot go alone. */
function isInside({ content }: Noted, { content: outer }: Noted): boolean {
  if (content.format !== 'toml' || outer.format !== 'toml' || outer.append) return false;
  return content.at.length > outer.at.length && outer.at.every((key, at) => key === content.at[at]);
}

/** The text without all of these; null if one of them is not there as we wrote it. */
function withoutAll(notes: readonly Noted[], text: string): string | null {
  let now = text;
  for (const { content, edit } of notes.toReversed()) {
    const result = textWithout(content, edit, now);
    if (typeof result === 'string') return null;
    now = result.text;
  }
  return now;
}

function putAgain(notes: readonly Noted[], text: string): { text: string; notes: Noted[] } {
  let now = text;
  const again = notes.map((note) => {
    const edit = editFor(note.content, now);
    now = inserted(now, edit.insertions);
    return { ...note, edit, left: hashOf(now) };
  });
  return { text: now, notes: again };
}

/** Takes out everything down to this one, and puts in again what came after it. Null if somebody else was there in between. */
function rebuilt(notes: readonly Noted[], gone: number, text: string): Less | null {
  let now = text;
  for (let at = notes.length - 1; at >= gone; at -= 1) {
    const before = takenOut(now, notes[at]?.edit.insertions ?? []);
    if (before === null || (at > gone && hashOf(before) !== notes[at - 1]?.left)) return null;
    now = before;
  }
  const again = notes.slice(0, gone);
  try {
    for (const note of notes.slice(gone + 1)) {
      const edit = editFor(note.content, now);
      now = inserted(now, edit.insertions);
      again.push({ ...note, edit, left: hashOf(now) });
    }
  } catch (error) {
    if (error instanceof NotEditable) return null;
    throw error;
  }
  return { text: now, notes: again };
}

/** Containers that came with what is gone, and that another thing of ours needed too, go with that one now. */
function inheriting(note: Noted, gone: Noted): Noted {
  const made = containersOf(gone.content).slice(-gone.edit.made || Infinity);
  const own = containersOf(note.content);
  let count = note.edit.made;
  while (count < own.length && made.includes(own[own.length - 1 - count] ?? '')) count += 1;
  return { ...note, edit: { ...note.edit, made: count } };
}

/** The containers around a value, from the outermost, each by its whole path. */
function containersOf(content: Content): string[] {
  if (content.format !== 'json') return [];
  const path = content.append ? content.at : content.at.slice(0, -1);
  return path.map((_, at) => JSON.stringify(path.slice(0, at + 1)));
}
