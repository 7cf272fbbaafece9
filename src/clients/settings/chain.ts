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
  if (exact) return created && exact.notes.length === 0 ? { ...exact, text: null } : exact;
  const result = textWithout(gone.content, gone.edit, text);
  if (typeof result === 'string') return result;
  const left = there.filter((one) => one !== gone).map((one) => inheriting(one, gone));
  const isBlank = /^\s*(?:\{\s*\}\s*)?$/.test(result.text);
  return { text: created && isBlank && left.length === 0 ? null : result.text, notes: left };
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
