import * as v from 'valibot';
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { Schema } from '../../core/schema.ts';
import type { Described } from '../../core/schema.ts';
import { SettingsContent, Edit } from './content.ts';
import { dropFolders, missingFolders } from './file.ts';
import { NotEditable } from './text-edit.ts';

/** One addition to one file, with everything that is needed to remove it. */
const Recorded = new Schema(() =>
  v.object({
    /** The install profile that added it. Each profile removes only its own. */
    by: v.string(),
    path: v.string(),
    /** The file behind the path, if the path is a link. */
    target: v.string(),
    /** The client whose settings these are. */
    owner: v.string(),
    /** The name of the addition. */
    what: v.string(),
    content: SettingsContent.inner,
    edit: Edit.inner,
    /** The hash of the file after our change. As long as it matches, no other program has changed the file. */
    left: v.string(),
  }),
);
export type Recorded = Described<typeof Recorded>;

/** A file that we changed, and its state before our first addition. */
const Touched = new Schema(() =>
  v.object({
    target: v.string(),
    /** The file did not exist. */
    created: v.boolean(),
    /** The path of the copy of the file as it was. */
    copy: v.optional(v.string()),
  }),
);
type Touched = Described<typeof Touched>;

const Manifest = new Schema(() =>
  v.object({
    v: v.literal(2),
    /** Folders that we created. They are removed when they are empty again. */
    folders: v.array(v.string()),
    files: v.array(Touched.inner),
    /** The additions, in the order in which they were made. */
    noted: v.array(Recorded.inner),
  }),
);
/** The record of all our additions to files of other programs. Nothing outside this record is treated as ours. */
export type Manifest = Described<typeof Manifest>;

export function readManifest(path: string): Manifest {
  if (!statSync(path, { throwIfNoEntry: false })) return { v: 2, folders: [], files: [], noted: [] };
  try {
    return Manifest.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    throw new NotEditable('cannot be read, so it is unknown what we added');
  }
}

/** Writes the manifest. Without any addition, removes it, and its folder if we created that. */
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

/** The manifest with the records of one file replaced by these. */
export function withRecords(manifest: Manifest, target: string, records: readonly Recorded[]): Manifest {
  return { ...manifest, noted: [...manifest.noted.filter((one) => one.target !== target), ...records] };
}

/** Whether both are the same addition to the same file. The content may differ, and the recorded name may be the former one. */
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
