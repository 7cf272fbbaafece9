import * as v from 'valibot';
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { Schema } from '../../core/schema.ts';
import type { Described } from '../../core/schema.ts';
import { SettingsContent, Edit } from './content.ts';
import { dropFolders, missingFolders } from './file.ts';
import { NotEditable } from './text-edit.ts';

/** One addition to one file, and everything that is needed to take it out again. */
const Recorded = new Schema(() =>
  v.object({
    /** The install profile that added it: each undoes its own. */
    by: v.string(),
    path: v.string(),
    /** The file itself, where the path is a link to it. */
    target: v.string(),
    /** Whose settings these are. */
    owner: v.string(),
    /** What it is, in a few words. */
    what: v.string(),
    content: SettingsContent.inner,
    edit: Edit.inner,
    /** The hash of the file after our change: while it has this one, nobody else has changed it. */
    left: v.string(),
  }),
);
export type Recorded = Described<typeof Recorded>;

/** A file that we changed: how it was before the first addition. */
const Touched = new Schema(() =>
  v.object({
    target: v.string(),
    /** It was not there. */
    created: v.boolean(),
    /** The copy of the file as it was. */
    copy: v.optional(v.string()),
  }),
);
type Touched = Described<typeof Touched>;

const Manifest = new Schema(() =>
  v.object({
    v: v.literal(2),
    /** Folders that were not there before. They go when they are empty again. */
    folders: v.array(v.string()),
    files: v.array(Touched.inner),
    /** The additions, in the order in which they were made. */
    noted: v.array(Recorded.inner),
  }),
);
/** What we added to the files of others. What is not recorded here is never taken for ours. */
export type Manifest = Described<typeof Manifest>;

export function readManifest(path: string): Manifest {
  if (!statSync(path, { throwIfNoEntry: false })) return { v: 2, folders: [], files: [], noted: [] };
  try {
    return Manifest.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    throw new NotEditable('cannot be read, so nobody can tell what we added');
  }
}

/** Without any addition there is no manifest, and no folder for it if we made one. */
export function writeManifest(path: string, manifest: Manifest): void {
  if (manifest.noted.length === 0) {
    rmSync(path, { force: true });
    dropFolders(manifest.folders);
    return;
  }
  const folders = [...manifest.folders, ...missingFolders(path)];
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const text = `${JSON.stringify({ ...manifest, folders }, null, 2)}\n`;
  writeFileSync(`${path}.${process.pid}`, text, { mode: 0o600, flush: true });
  renameSync(`${path}.${process.pid}`, path);
}

/** The additions to one file, in their order there. */
export function recordsOf(manifest: Manifest, target: string): Recorded[] {
  return manifest.noted.filter((one) => one.target === target);
}

/** The manifest with these records of a file in the place of those that it had. */
export function withRecords(manifest: Manifest, target: string, records: readonly Recorded[]): Manifest {
  return { ...manifest, noted: [...manifest.noted.filter((one) => one.target !== target), ...records] };
}

/** The same addition to the same file, perhaps with another content, or recorded under its former name. */
export function isSameAddition(
  one: Recorded,
  other: Pick<Recorded, 'by' | 'owner' | 'what' | 'target'> & { formerly?: string | undefined },
): boolean {
  const isNamed = one.what === other.what || one.what === other.formerly;
  return isNamed && one.by === other.by && one.owner === other.owner && one.target === other.target;
}

export function contentHash(text: string): string {
  return `sha256:${new Bun.CryptoHasher('sha256').update(text).digest('hex')}`;
}
