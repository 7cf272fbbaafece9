import { blankOf, editFor, textWithout } from './content.ts';
import type { SettingsContent } from './content.ts';
import { dropCopy, dropFolders, find, keepCopy, makeFolder, removeFile, replace } from './file.ts';
import type { FoundFile } from './file.ts';
import { contentHash, isSameAddition, readManifest, recordsOf, withRecords, writeManifest } from './manifest.ts';
import type { Manifest, Recorded } from './manifest.ts';
import { inserted, NotEditable, takenOut } from './text-edit.ts';

/** What to add to a settings file of another program. */
export interface Addition {
  /** The install profile that adds it. */
  by: string;
  path: string;
  owner: string;
  /** Its name. Unique among the additions of one profile to one file of a client. */
  what: string;
  /** Its name in an earlier version. An addition under that name is replaced. */
  formerly?: string | undefined;
  content: SettingsContent;
  /** Whether this text already has the addition, or an equivalent one. */
  isThere: (text: string) => boolean;
}

/** A planned change of one file: the file as it is, its new text, and its new records in the manifest. */
export interface Change {
  found: FoundFile;
  text: string;
  records: Recorded[];
}

/** Why nothing is changed. `there`: we have added it before. `theirs`: others added it, or changed our addition, so we leave it. */
export type NoChange = 'there' | 'theirs';

/**
 * Plans the change for an addition, and writes nothing. An earlier addition of ours with another content is replaced, unless others changed it.
 * Throws NotEditable for a file that must be left alone.
 */
export function changeFor(addition: Addition, manifestPath: string): Change | NoChange {
  const found = find(addition.path);
  const manifest = readManifest(manifestPath);
  const records = recordsOf(manifest, found.target);
  const applied = found.text === null ? [] : appliedOf(records, found.text);
  const earlier = applied.find((one) => isSameAddition(one, { ...addition, target: found.target }));
  if (found.text !== null && addition.isThere(found.text)) {
    if (!earlier) return 'theirs';
    if (Bun.deepEquals(earlier.content, addition.content)) return 'there';
  } else if (found.text !== null && addition.content.format === 'whole' && earlier?.left !== contentHash(found.text)) {
    return 'theirs';
  }
  const base =
    found.text !== null && earlier ? without(records, earlier, found.text, isCreated(manifest, found)) : 'gone';
  if (base === 'changed') return 'theirs';
  const left = (base === 'gone' ? applied : base.records).filter((one) => one !== earlier);
  const before = (base === 'gone' ? found.text : base.text) ?? blankOf(addition.content);
  const { isThere: _isThere, formerly: _formerly, ...rest } = addition;
  const { text, records: added } = putIn([{ ...rest, target: found.target }], before);
  return { found, text, records: [...left, ...added] };
}

/** Inserts additions into a text, one after the other. */
function putIn(
  additions: readonly Omit<Recorded, 'edit' | 'left'>[],
  text: string,
): { text: string; records: Recorded[] } {
  let now = text;
  const records = additions.map((one) => {
    const edit = editFor(one.content, now);
    now = inserted(now, edit.insertions);
    return { ...one, edit, left: contentHash(now) };
  });
  return { text: now, records };
}

/** Writes the change and records it. If that fails, everything is restored. Returns the path of the copy that is kept of the file, if any. */
export function applyChange({ found, text, records }: Change, manifestPath: string): string | undefined {
  const { target } = found;
  const before = readManifest(manifestPath);
  const [added] = records.slice(-1);
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
  const started: Manifest = { ...before, folders: [...folders, ...before.folders], files };
  try {
    // Record first: a crash may then leave a record without an addition, but never an addition without a record.
    writeManifest(manifestPath, { ...started, noted: [...before.noted, added] });
    replace(found, text, modeFor(content));
    writeManifest(manifestPath, withRecords({ ...readManifest(manifestPath), noted: before.noted }, target, records));
    return copy;
  } catch (error) {
    if (made && found.text !== null) dropCopy(made, found.text);
    writeManifest(manifestPath, {
      ...before,
      folders: dropFolders([...folders, ...readManifest(manifestPath).folders]),
    });
    throw error;
  }
}

function modeFor(content: SettingsContent): number {
  if (content.format === 'whole') return content.mode ?? 0o644;
  return content.format === 'markdown' ? 0o644 : 0o600;
}

/** Undoes changes that were just made, the last first, and removes their records. */
export function rollBack(changes: readonly Change[], before: Manifest, manifestPath: string): void {
  for (const { found, text } of changes.toReversed()) {
    const now = { target: found.target, text };
    if (found.text === null) removeFile(now);
    else replace(now, found.text);
  }
  const { files, folders } = readManifest(manifestPath);
  for (const { target, copy } of files) {
    const was = changes.find(({ found }) => found.target === target)?.found.text;
    const isNew = !before.files.some((one) => one.copy === copy);
    if (copy && isNew && typeof was === 'string') dropCopy(copy, was);
  }
  writeManifest(manifestPath, { ...before, folders: dropFolders(folders) });
}

/** The result of removing one addition. */
export interface Undone {
  outcome: 'removed' | 'gone' | 'changed';
  /** The path of the file's copy, which is kept because the file is not what it was before us. */
  kept?: string;
}

/** Reads a settings file: as it is, or as an earlier planned change would leave it. */
export type ReadFile = (path: string) => FoundFile;

/** Removes a recorded addition: see `without`. With `dry` it changes nothing and returns what would happen. */
export function undo(recorded: Recorded, manifestPath: string, dry = false, read: ReadFile = find): Undone {
  const manifest = readManifest(manifestPath);
  const { target } = recorded;
  const records = recordsOf(manifest, target);
  const own = records.find((one) => isSameAddition(one, recorded)) ?? recorded;
  const found = read(recorded.path);
  const result = found.text === null ? 'gone' : without(records, own, found.text, isCreated(manifest, found));
  const isRemoved = typeof result === 'object';
  const outcome = isRemoved ? 'removed' : result;
  if (dry) return { outcome };
  if (isRemoved && result.text === null) removeFile(found);
  else if (isRemoved && result.text !== null) replace(found, result.text);
  const left = isRemoved ? result.records : records.filter((one) => one !== own);
  const now = isRemoved ? result.text : found.text;
  const { copy } = manifest.files.find((one) => one.target === target) ?? {};
  const isLast = left.length === 0;
  const kept = isLast && copy && !(now !== null && dropCopy(copy, now)) ? copy : undefined;
  const files = isLast ? manifest.files.filter((one) => one.target !== target) : manifest.files;
  const folders = dropFolders(manifest.folders);
  writeManifest(manifestPath, withRecords({ ...manifest, folders, files }, target, left));
  return { outcome, ...(kept && { kept }) };
}

/** The text of a file without all our recorded additions; null if the file would not exist. */
export function textWithoutOurs(path: string, manifestPath: string, read: ReadFile): string | null {
  const manifest = readManifest(manifestPath);
  const found = read(path);
  let { text } = found;
  let records = recordsOf(manifest, found.target);
  // Each removal returns new records for the additions that are left.
  for (let last = records.at(-1); text !== null && last; last = records.at(-1)) {
    const result = without(records, last, text, isCreated(manifest, found));
    if (typeof result === 'object') ({ text, records } = result);
    else records = records.slice(0, -1);
  }
  return text;
}

function isCreated(manifest: Manifest, { target }: FoundFile): boolean {
  return manifest.files.find((one) => one.target === target)?.created ?? false;
}

/** A file without one of our additions. The text is null if the file should be removed. */
interface Less {
  text: string | null;
  /** The new records of the additions that are left. */
  records: Recorded[];
}

/** The records whose additions are in the file. The last record may have none, if a crash came between the record and the change. */
function appliedOf(records: readonly Recorded[], text: string): Recorded[] {
  const last = records.findLastIndex(({ left }) => left === contentHash(text));
  return last < 0 ? [...records] : records.slice(0, last + 1);
}

/**
 * The file without one of our additions. If no other program has changed the file, the result is byte for byte what it would be without that
 * addition: later additions are removed, too, and inserted again. Otherwise only that addition is removed, and only if it is still as we wrote
 * it.
 */
function without(
  records: readonly Recorded[],
  gone: Recorded,
  text: string,
  created: boolean,
): Less | 'gone' | 'changed' {
  const there = appliedOf(records, text);
  if (!there.includes(gone)) return 'gone';
  const exact = there.at(-1)?.left === contentHash(text) ? rebuilt(there, there.indexOf(gone), text) : null;
  if (exact) return orNoFile(exact, created);
  const inner = there.filter((one) => isInside(one, gone));
  const bare = withoutAll(inner, text);
  const outer = bare === null ? 'changed' : textWithout(gone.content, gone.edit, bare);
  if (typeof outer === 'string') return outer;
  const result = putIn(inner, outer.text);
  const left = there
    .filter((one) => one !== gone)
    .map((one) => inheriting(result.records[inner.indexOf(one)] ?? one, gone));
  return orNoFile({ text: result.text, records: left }, created);
}

/** Removes a file that we created, if nothing is left in it. Checks the text, because others may have written to it. */
function orNoFile({ text, records }: Less, created: boolean): Less {
  const isBlank = /^\s*(?:\{\s*\}\s*)?$/.test(text ?? '');
  return { text: created && isBlank && records.length === 0 ? null : text, records };
}

/** Whether the first is a TOML table inside the second, both of ours. Then the outer one cannot be removed alone. */
function isInside({ content }: Recorded, { content: outer }: Recorded): boolean {
  if (content.format !== 'toml' || outer.format !== 'toml' || outer.append) return false;
  return content.at.length > outer.at.length && outer.at.every((key, at) => key === content.at[at]);
}

/** The text without all these additions; null if one of them is not as we wrote it. */
function withoutAll(records: readonly Recorded[], text: string): string | null {
  let now = text;
  for (const { content, edit } of records.toReversed()) {
    const result = textWithout(content, edit, now);
    if (typeof result === 'string') return null;
    now = result.text;
  }
  return now;
}

/** Removes all additions from the last one down to this one, and inserts the later ones again. Null if others changed the file in between. */
function rebuilt(records: readonly Recorded[], gone: number, text: string): Less | null {
  let now = text;
  for (let at = records.length - 1; at >= gone; at -= 1) {
    const before = takenOut(now, records[at]?.edit.insertions ?? []);
    if (before === null || (at > gone && contentHash(before) !== records[at - 1]?.left)) return null;
    now = before;
  }
  try {
    const again = putIn(records.slice(gone + 1), now);
    return { text: again.text, records: [...records.slice(0, gone), ...again.records] };
  } catch (error) {
    if (error instanceof NotEditable) return null;
    throw error;
  }
}

/** Passes containers, which we created with the removed addition, on to another addition in them, so that they are removed with that one. */
function inheriting(record: Recorded, gone: Recorded): Recorded {
  const made = containersOf(gone.content).slice(-gone.edit.made || Infinity);
  const own = containersOf(record.content);
  let count = record.edit.made;
  while (count < own.length && made.includes(own[own.length - 1 - count] ?? '')) count += 1;
  return { ...record, edit: { ...record.edit, made: count } };
}

/** The containers around a JSON value, from the outermost, each as its whole path. */
function containersOf(content: SettingsContent): string[] {
  if (content.format !== 'json') return [];
  const path = content.append ? content.at : content.at.slice(0, -1);
  return path.map((_, at) => JSON.stringify(path.slice(0, at + 1)));
}
