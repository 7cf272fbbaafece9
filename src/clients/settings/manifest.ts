import { mkdirSync, readFileSync, renameSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import * as v from 'valibot';
import { Schema } from '../../protocol/schema.ts';
import type { Described } from '../../protocol/schema.ts';
import { Content, Edit } from './addition.ts';
import { NotEditable } from './not-editable.ts';

/** One thing that we put into one file, and everything that is needed to take it out again. */
export const Noted = new Schema(() =>
  v.object({
    path: v.string(),
    /** Whose settings these are. */
    owner: v.string(),
    /** What it is, in a few words. */
    what: v.string(),
    content: Content.inner,
    edit: Edit.inner,
    /** The hash of the file as we left it: while it has this one, nobody else has changed it. */
    left: v.string(),
    /** The file was not there before. */
    created: v.boolean(),
    /** Folders that were not there before, the innermost first. */
    folders: v.array(v.string()),
    /** The copy of the file as it was before. */
    copy: v.optional(v.string()),
  }),
);
export type Noted = Described<typeof Noted>;

/** `folder`: the folder of the manifest was not there before. */
const Manifest = new Schema(() =>
  v.object({ v: v.literal(1), folder: v.optional(v.boolean(), false), noted: v.array(Noted.inner) }),
);
type Manifest = Described<typeof Manifest>;

/** What we added to the files of others. What is not noted here is never taken for ours. */
export function readManifest(path: string): Noted[] {
  return read(path).noted;
}

function read(path: string): Manifest {
  if (!statSync(path, { throwIfNoEntry: false })) return { v: 1, folder: false, noted: [] };
  try {
    return Manifest.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    throw new NotEditable('cannot be read, so nobody can tell what we added');
  }
}

/** Notes one thing before it is done: a crash in between leaves a note of nothing, never something without a note. */
export function note(path: string, noted: Noted): void {
  write(path, [...others(path, noted), noted]);
}

export function forget(path: string, noted: Noted): void {
  write(path, others(path, noted));
}

/** What is noted about a file. */
export function notedAbout(path: string, file: string): Noted | undefined {
  return readManifest(path).find((one) => one.path === file);
}

function others(path: string, noted: Noted): Noted[] {
  return readManifest(path).filter((one) => one.path !== noted.path);
}

function write(path: string, noted: Noted[]): void {
  const { folder } = read(path);
  if (noted.length === 0) return remove(path, folder);
  const made = mkdirSync(dirname(path), { recursive: true, mode: 0o700 }) !== undefined;
  const manifest: Manifest = { v: 1, folder: folder || made, noted };
  writeFileSync(`${path}.${process.pid}`, `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600, flush: true });
  renameSync(`${path}.${process.pid}`, path);
}

function remove(path: string, folder: boolean): void {
  rmSync(path, { force: true });
  try {
    if (folder) rmdirSync(dirname(path));
  } catch {
    // By now it holds mail, or settings.
  }
}

export function hashOf(text: string): string {
  return `sha256:${new Bun.CryptoHasher('sha256').update(text).digest('hex')}`;
}
