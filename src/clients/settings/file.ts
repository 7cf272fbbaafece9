import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  copyFileSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { ChangedMeanwhile, NotEditable } from './text-edit.ts';

/** A settings file as we found it. Links are followed: `target` is the file behind a link. */
export interface FoundFile {
  target: string;
  /** Null if there is no file. */
  text: string | null;
}

/** Reads a file of another program. Throws NotEditable if it is not a plain file, or not UTF-8. */
export function find(path: string): FoundFile {
  const link = lstatSync(path, { throwIfNoEntry: false });
  if (!link) return { target: path, text: null };
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) throw new NotEditable('is a link that leads nowhere');
  if (!stat.isFile()) throw new NotEditable('is not a file');
  const target = link.isSymbolicLink() ? realpathSync(path) : path;
  return { target, text: decoded(readFileSync(target)) };
}

function decoded(bytes: Uint8Array): string {
  try {
    // Keep a byte order mark, so that it is written again.
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new NotEditable('is not UTF-8 text');
  }
}

/**
 * Replaces a found file by a text, whole or not at all, and keeps the file's mode and owner. If another program has written the file since it was
 * found, this throws ChangedMeanwhile and leaves the file: a client may change its settings at any time.
 */
export function replace({ target, text: before }: FoundFile, text: string, mode = 0o600): void {
  const stat = statSync(target, { throwIfNoEntry: false });
  const draft = `${target}.parley-${process.pid}`;
  try {
    writeDraft(draft, text, stat?.mode ?? mode);
    if (stat && (stat.uid !== process.getuid?.() || stat.gid !== process.getgid?.()))
      chownSync(draft, stat.uid, stat.gid);
    if (before === null) {
      // `link`, because a rename would replace a file that another program has just created.
      linkSync(draft, target);
    } else {
      if (!isStill(target, before)) throw new ChangedMeanwhile('was changed by another program meanwhile');
      renameSync(draft, target);
    }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST')
      throw new ChangedMeanwhile('was created by another program meanwhile');
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

function writeDraft(draft: string, text: string, mode: number): void {
  rmSync(draft, { force: true });
  const fd = openSync(draft, 'wx', 0o600);
  try {
    writeFileSync(fd, text);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  chmodSync(draft, mode & 0o7777);
}

function isStill(target: string, text: string): boolean {
  const bytes = statSync(target, { throwIfNoEntry: false }) ? readFileSync(target) : null;
  return bytes?.equals(Buffer.from(text)) ?? false;
}

/** Removes a file, if it is still as it was found. Keeps links to it. */
export function removeFile({ target, text }: FoundFile): void {
  if (text === null) return;
  if (!isStill(target, text)) throw new ChangedMeanwhile('was changed by another program meanwhile');
  rmSync(target);
}

/** Copies the file beside itself, under a free name. Returns the path of the copy; undefined if there is no file. */
export function keepCopy({ target, text }: FoundFile): string | undefined {
  if (text === null) return undefined;
  let copy = `${target}.before-parley`;
  for (let more = 2; lstatSync(copy, { throwIfNoEntry: false }); more += 1) copy = `${target}.before-parley.${more}`;
  copyFileSync(target, copy, constants.COPYFILE_EXCL);
  chmodSync(copy, statSync(target).mode & 0o7777);
  return copy;
}

/** Removes a copy if it is equal to this text, which the file has again. */
export function dropCopy(copy: string, text: string): boolean {
  if (!isStill(copy, text)) return false;
  rmSync(copy);
  return true;
}

/** Creates the folder of a file. Returns the folders that it created, the innermost first. */
export function makeFolder(path: string): string[] {
  const missing = missingFolders(path);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  return missing;
}

/** The missing folders around a file, the innermost first. */
export function missingFolders(path: string): string[] {
  const missing: string[] = [];
  for (let folder = dirname(path); !lstatSync(folder, { throwIfNoEntry: false }); folder = dirname(folder)) {
    missing.push(folder);
  }
  return missing;
}

/** Removes folders that we created, if they are empty. Returns the others. */
export function dropFolders(folders: readonly string[]): string[] {
  // Inner folders first.
  return folders.toSorted((one, other) => other.length - one.length).filter((folder) => !isDropped(folder));
}

function isDropped(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ENOENT';
  }
}
