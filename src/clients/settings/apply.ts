import { blankOf, editFor } from './addition.ts';
import type { Content } from './addition.ts';
import { carriedOut, without } from './chain.ts';
import { dropCopy, dropFolders, find, keepCopy, makeFolder, remove, replace } from './file.ts';
import type { Found } from './file.ts';
import { inserted } from './insertions.ts';
import { hashOf, isSame, notesOn, readManifest, withNotes, writeManifest } from './manifest.ts';
import type { Manifest, Noted } from './manifest.ts';

/** Something to be added to a settings file of another program. */
export interface Wish {
  by: string;
  path: string;
  owner: string;
  /** No two things that one of our names adds to a file of a client are called the same. */
  what: string;
  content: Content;
  /** Is it, or something as good, in this text already? */
  isThere: (text: string) => boolean;
}

/** A wish that is not fulfilled yet: the file as it is, the text that it should have, and what is noted about it then. */
export interface Change {
  found: Found;
  text: string;
  notes: Noted[];
}

/** Why nothing is done. `there`: we did it before. `theirs`: somebody else put it there, or changed what we put there, and it stays. */
export type Nothing = 'there' | 'theirs';

/**
 * What must be done for a wish. Changes nothing. Throws NotEditable for a file that must be left alone. What we added earlier with
 * another content is replaced, unless somebody changed it: then it is theirs.
 */
export function changeFor(wish: Wish, manifest: string): Change | Nothing {
  const found = find(wish.path);
  const known = readManifest(manifest);
  const notes = notesOn(known, found.target);
  const same = found.text === null ? [] : carriedOut(notes, found.text);
  const earlier = same.find((one) => isSame(one, { ...wish, target: found.target }));
  if (found.text !== null && wish.isThere(found.text)) {
    if (!earlier) return 'theirs';
    if (Bun.deepEquals(earlier.content, wish.content)) return 'there';
  } else if (found.text !== null && wish.content.format === 'whole' && earlier?.left !== hashOf(found.text)) {
    return 'theirs';
  }
  const base = found.text !== null && earlier ? without(notes, earlier, found.text, isCreated(known, found)) : 'gone';
  if (base === 'changed') return 'theirs';
  const left = (base === 'gone' ? same : base.notes).filter((one) => one !== earlier);
  return { found, ...added(wish, found.target, base === 'gone' ? found.text : base.text, left) };
}

function added(wish: Wish, target: string, text: string | null, left: Noted[]): Omit<Change, 'found'> {
  const { by, path, owner, what, content } = wish;
  const before = text ?? blankOf(content);
  const edit = editFor(content, before);
  const after = inserted(before, edit.insertions);
  return { text: after, notes: [...left, { by, path, target, owner, what, content, edit, left: hashOf(after) }] };
}

/** Makes the change, noted in the manifest before it is done. If it fails, everything is as it was. The copy that was kept, if any. */
export function carryOut({ found, text, notes }: Change, path: string): string | undefined {
  const { target } = found;
  const before = readManifest(path);
  const [added] = notes.slice(-1);
  if (!added) return undefined;
  const { content } = added;
  const known = before.files.find((one) => one.target === target);
  const folders = makeFolder(target);
  const made = content.format === 'whole' || known ? undefined : keepCopy(found);
  const copy = made ?? known?.copy;
  const files = [
    ...before.files.filter((one) => one !== known),
    { target, created: found.text === null || (known?.created ?? false), ...(copy && { copy }) },
  ];
  const noted: Manifest = { ...before, folders: [...folders, ...before.folders], files };
  try {
    // Until it is done what was there stays noted, so that a crash leaves a note of nothing, never something without a note.
    writeManifest(path, { ...noted, noted: [...before.noted, added] });
    replace(found, text, modeFor(content));
    writeManifest(path, withNotes({ ...readManifest(path), noted: before.noted }, target, notes));
    return copy;
  } catch (error) {
    if (made && found.text !== null) dropCopy(made, found.text);
    writeManifest(path, { ...before, folders: dropFolders([...folders, ...readManifest(path).folders]) });
    throw error;
  }
}

function modeFor(content: Content): number {
  if (content.format === 'whole') return content.mode ?? 0o644;
  return content.format === 'markdown' ? 0o644 : 0o600;
}

/** Takes back changes that were just made, the last first, and what was noted of them. */
export function takeBack(changes: readonly Change[], before: Manifest, path: string): void {
  for (const { found, text } of changes.toReversed()) {
    const now = { target: found.target, text };
    if (found.text === null) remove(now);
    else replace(now, found.text);
  }
  const { files, folders } = readManifest(path);
  for (const { target, copy } of files) {
    const was = changes.find(({ found }) => found.target === target)?.found.text;
    const isNew = !before.files.some((one) => one.copy === copy);
    if (copy && isNew && typeof was === 'string') dropCopy(copy, was);
  }
  writeManifest(path, { ...before, folders: dropFolders(folders) });
}

/** What became of something that we had added, and of the copy of the file as it was before. */
export interface Undone {
  outcome: 'removed' | 'gone' | 'changed';
  /** The copy is kept, because the file is not what it was. */
  kept?: string;
}

/** How a settings file is read: as it is, or as a change that comes first would leave it. */
export type Look = (path: string) => Found;

/** Takes out what was noted: see `without`. `dry` changes nothing and says what would become of it, in the text that `look` finds. */
export function undo(noted: Noted, path: string, dry = false, look: Look = find): Undone {
  const manifest = readManifest(path);
  const { target } = noted;
  const notes = notesOn(manifest, target);
  const own = notes.find((one) => isSame(one, noted)) ?? noted;
  const found = look(noted.path);
  const result = found.text === null ? 'gone' : without(notes, own, found.text, isCreated(manifest, found));
  const outcome = typeof result === 'object' ? 'removed' : result;
  if (dry) return { outcome };
  if (typeof result === 'object') {
    if (result.text === null) remove(found);
    else replace(found, result.text);
  }
  const left = typeof result === 'object' ? result.notes : notes.filter((one) => one !== own);
  const now = typeof result === 'object' ? result.text : found.text;
  const { copy } = manifest.files.find((one) => one.target === target) ?? {};
  const isLast = left.length === 0;
  const kept = isLast && copy && !(now !== null && dropCopy(copy, now)) ? copy : undefined;
  const files = isLast ? manifest.files.filter((one) => one.target !== target) : manifest.files;
  const folders = dropFolders(manifest.folders);
  writeManifest(path, withNotes({ ...manifest, folders, files }, target, left));
  return { outcome, ...(kept && { kept }) };
}

/** The text that a file would have without all that is noted about it; null if it would not be there. */
export function textWithoutOurs(path: string, manifestPath: string, look: Look): string | null {
  const manifest = readManifest(manifestPath);
  const found = look(path);
  let { text } = found;
  let notes = notesOn(manifest, found.target);
  for (const one of notes.toReversed()) {
    const result = text === null ? 'gone' : without(notes, one, text, isCreated(manifest, found));
    if (typeof result === 'object') ({ text, notes } = result);
  }
  return text;
}

function isCreated(manifest: Manifest, { target }: Found): boolean {
  return manifest.files.find((one) => one.target === target)?.created ?? false;
}
