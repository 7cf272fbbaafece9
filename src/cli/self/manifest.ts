import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import * as v from 'valibot';
import { Refusal } from '../../protocol/refusal.ts';
import { Schema } from '../../protocol/schema.ts';
import type { Described } from '../../protocol/schema.ts';

/** One thing that `self install` put somewhere: the program, by its hash, or a further name, by what it links to. */
const Installed = new Schema(() =>
  v.object({
    path: v.string(),
    is: v.string(),
    /** Where the program of somebody else stands now that was in its place. */
    before: v.optional(v.string()),
  }),
);
export type Installed = Described<typeof Installed>;

const Manifest = new Schema(() =>
  v.object({
    v: v.literal(1),
    files: v.array(Installed.inner),
    /** Folders that were not there before, the innermost first. They go when they are empty. */
    folders: v.optional(v.array(v.string()), []),
  }),
);
type Manifest = Described<typeof Manifest>;

/** What is installed, as noted beside the settings. Nobody else's file is ever taken for ours. */
export function readManifest(path: string): Omit<Manifest, 'v'> {
  if (!existsSync(path)) return { files: [], folders: [] };
  try {
    return Manifest.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    throw new Refusal(
      'bad_config',
      `${path} cannot be read, so nobody can tell what is ours; remove it and what it installed by hand`,
    );
  }
}

export function writeManifest(path: string, { files, folders }: Omit<Manifest, 'v'>): void {
  if (files.length === 0) return rmSync(path, { force: true });
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeFileSync(`${path}.${process.pid}`, `${JSON.stringify({ v: 1, files, folders }, null, 2)}\n`, {
    mode: 0o600,
    flush: true,
  });
  renameSync(`${path}.${process.pid}`, path);
}

/** What stands at a path: a link's target, a file's hash, or null for nothing. A folder is never like anything of ours. */
export function whatIs(path: string): string | null {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (!stat) return null;
  if (stat.isSymbolicLink()) return `link:${readlinkSync(path)}`;
  return stat.isFile() ? hashOf(path) : 'other';
}

export function hashOf(path: string): string {
  return `sha256:${new Bun.CryptoHasher('sha256').update(readFileSync(path)).digest('hex')}`;
}

/** True if both lead to the same existing file. */
export function isSameFile(a: string, b: string): boolean {
  return existsSync(a) && existsSync(b) && realpathSync(a) === realpathSync(b);
}
