import { blankOf, editFor, textWithout } from './addition.ts';
import type { Content } from './addition.ts';
import { dropCopy, dropFolders, find, keepCopy, makeFolder, remove, replace } from './file.ts';
import type { Found } from './file.ts';
import { inserted, takenOut } from './insertions.ts';
import { forget, hashOf, note, notedAbout } from './manifest.ts';
import type { Noted } from './manifest.ts';

/** Something to be added to a settings file of another program. */
export interface Wish {
  path: string;
  owner: string;
  what: string;
  content: Content;
  /** Is it, or something as good, in this text already? */
  isThere: (text: string) => boolean;
}

/** A wish that is not fulfilled yet: the file as it is, and the text that it should have. */
export interface Change {
  found: Found;
  text: string;
  noted: Noted;
}

/**
 * What must be done for a wish; null if it is there already. Changes nothing. Throws NotEditable for a file that must be left alone.
 * A file that would be ours alone is replaced only if it still is what we put there: somebody else's counts as there.
 */
export function changeFor({ path, owner, what, content, isThere }: Wish, manifest: string): Change | null {
  const found = find(path);
  if (found.text !== null && isThere(found.text)) return null;
  const isWhole = content.format === 'whole';
  if (isWhole && found.text !== null && notedAbout(manifest, path)?.left !== hashOf(found.text)) return null;
  const before = isWhole ? '' : (found.text ?? blankOf(content));
  const edit = editFor(content, before);
  const text = inserted(before, edit.insertions);
  const created = found.text === null;
  return { found, text, noted: { path, owner, what, content, edit, left: hashOf(text), created, folders: [] } };
}

/** Makes the change, noted in the manifest before it is done. If it fails, everything is as it was. */
export function carryOut({ found, text, noted }: Change, manifest: string): void {
  const earlier = notedAbout(manifest, noted.path);
  const isShared = noted.content.format !== 'whole';
  const folders = makeFolder(found.target);
  const made = isShared ? keepCopy(found) : undefined;
  const copy = made ?? earlier?.copy;
  note(manifest, { ...noted, folders: [...folders, ...(earlier?.folders ?? [])], ...(copy && { copy }) });
  try {
    replace(found, text, noted.content.format === 'json' || noted.content.format === 'toml' ? 0o600 : 0o644);
  } catch (error) {
    if (earlier) note(manifest, earlier);
    else forget(manifest, noted);
    if (made && found.text !== null) dropCopy(made, found.text);
    dropFolders(folders);
    throw error;
  }
}

/** What became of something that we had added, and of the copy of the file as it was before. */
export interface Undone {
  outcome: 'removed' | 'gone' | 'changed';
  /** The copy is kept, because the file is not what it was. */
  kept?: string;
}

/**
 * Takes out what was noted. While nobody else has changed the file it gets the very bytes that it had before; otherwise only what
 * is ours goes, and only if it is still as we wrote it. `dry` changes nothing and says what would become of it.
 */
export function undo(noted: Noted, manifest: string, dry = false): Undone {
  const found = find(noted.path);
  const result = found.text === null ? 'gone' : withoutOurs(noted, found.text);
  const outcome = typeof result === 'object' ? 'removed' : result;
  if (dry) return { outcome };
  if (typeof result === 'object') {
    if (result.text === null) remove(found);
    else replace(found, result.text);
  }
  const now = typeof result === 'object' ? result.text : found.text;
  const kept = noted.copy && !(now !== null && dropCopy(noted.copy, now)) ? noted.copy : undefined;
  if (outcome !== 'changed') dropFolders(noted.folders);
  forget(manifest, noted);
  return { outcome, ...(kept && { kept }) };
}

/** The text that the file should have; null in it if the file should go. */
function withoutOurs(
  { content, edit, left, created }: Noted,
  text: string,
): { text: string | null } | 'gone' | 'changed' {
  const isUntouched = hashOf(text) === left;
  if (isUntouched && (created || content.format === 'whole')) return { text: null };
  const before = isUntouched ? takenOut(text, edit.insertions) : null;
  if (before !== null) return { text: before };
  const result = textWithout(content, edit, text);
  const isBlank = typeof result === 'object' && /^\s*(?:\{\s*\}\s*)?$/.test(result.text);
  return created && isBlank ? { text: null } : result;
}
