import * as v from 'valibot';
import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { dropFolders, missingFolders } from './settings/file.ts';
import { Refusal } from '../core/refusal.ts';
import { Schema } from '../core/schema.ts';
import type { Described } from '../core/schema.ts';
import { explained } from '../core/disk.ts';

/** A file that `self install` created: the program (`is` has its hash) or a link for a further name (`is` has its target). */
const Installed = new Schema(() =>
  v.object({
    path: v.string(),
    is: v.string(),
    /** The new path of another program that was at `path` before. */
    before: v.optional(v.string()),
  }),
);
type Installed = Described<typeof Installed>;

const Manifest = new Schema(() =>
  v.object({
    v: v.literal(1),
    files: v.array(Installed.inner),
    /** Folders that the installation created, innermost first. Uninstalling removes them if they are empty. */
    folders: v.optional(v.array(v.string()), []),
  }),
);
type Manifest = Described<typeof Manifest>;

/** Reads the manifest. A file that is not listed in it does not count as ours. */
export function readInstalled(path: string): Omit<Manifest, 'v'> {
  if (!existsSync(path)) return { files: [], folders: [] };
  try {
    return Manifest.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    throw new Refusal(
      'bad_config',
      `${path} cannot be read, so Parley does not know which files it installed; remove them and ${path} by hand`,
    );
  }
}

function writeManifest(path: string, { files, folders }: Omit<Manifest, 'v'>): void {
  if (files.length === 0) return rmSync(path, { force: true });
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeFileSync(`${path}.${process.pid}`, `${JSON.stringify({ v: 1, files, folders }, null, 2)}\n`, {
    mode: 0o600,
    flush: true,
  });
  renameSync(`${path}.${process.pid}`, path);
}

/** The target of a link or the hash of a file, to compare with `Installed.is`; null if nothing is there, `other` for a folder. */
function fingerprint(path: string): string | null {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (!stat) return null;
  if (stat.isSymbolicLink()) return `link:${readlinkSync(path)}`;
  return stat.isFile() ? hashOf(path) : 'other';
}

function hashOf(path: string): string {
  return `sha256:${new Bun.CryptoHasher('sha256').update(readFileSync(path)).digest('hex')}`;
}

/** Do both paths lead to the same existing file? */
export function isSameFile(a: string, b: string): boolean {
  return existsSync(a) && existsSync(b) && realpathSync(a) === realpathSync(b);
}

/** The input of `installProgram`. */
export interface ProgramInstall {
  /** The compiled program to install. */
  program: string;
  folder: string;
  /** Further names for the program: links to it. */
  names: readonly string[];
  /** Rename other programs that have one of these names, instead of refusing. */
  force: boolean;
  manifest: string;
}

/** A file to create. `is`: `link:<target>` for a link, the hash for the program. */
interface PlannedFile extends Installed {
  /** The fingerprint of the file that is at this path now. */
  there: string | null;
  /** Another program has this path. */
  foreign: boolean;
}

/** Installs the program and its further names. Checks for other programs under these names first, and then changes nothing if it refuses. */
export function installProgram(order: ProgramInstall): Installed[] {
  const known = readInstalled(order.manifest);
  const plans = planned(order, known.files);
  refuseForeign(plans, order.force);
  try {
    const folders = [...missingFolders(join(order.folder, 'parley')), ...known.folders];
    mkdirSync(order.folder, { recursive: true });
    const done = plans.map((plan) => putInPlace(plan, order.program));
    const others = known.files.filter((old) => !done.some((file) => file.path === old.path));
    writeManifest(order.manifest, { files: [...others, ...done], folders });
    return done;
  } catch (error) {
    throw explained(error, order.folder, 'not everything was installed');
  }
}

function planned(order: ProgramInstall, known: Installed[]): PlannedFile[] {
  const own = hashOf(order.program);
  const wanted = [{ name: 'parley', is: own }, ...order.names.map((name) => ({ name, is: 'link:parley' }))];
  return wanted.map(({ name, is }) => {
    const path = join(order.folder, name);
    const there = fingerprint(path);
    const recorded = known.find((file) => file.path === path);
    // Ours: nothing, an unchanged file that the manifest lists, or exactly the file that this installation would create.
    const ours = there === null || there === recorded?.is || there === is || isSameFile(path, order.program);
    return { path, is, there, foreign: !ours, ...(recorded?.before && { before: recorded.before }) };
  });
}

function refuseForeign(plans: PlannedFile[], force: boolean): void {
  for (const { path, foreign } of plans) {
    if (!foreign) continue;
    if (!force) {
      throw new Refusal(
        'name_taken',
        `${path} is another program; nothing was installed: leave its name out, choose another --dir, or use --force to rename it to ${aside(path)}`,
      );
    }
    if (fingerprint(aside(path)) !== null) {
      throw new Refusal(
        'name_taken',
        `${aside(path)} exists already, so ${path} cannot be renamed to it; nothing was installed: move one of them away`,
      );
    }
  }
}

function putInPlace({ path, is, there, foreign, before }: PlannedFile, program: string): Installed {
  if (foreign) renameSync(path, aside(path));
  const kept = foreign ? aside(path) : before;
  if (there !== is) replaceFile(path, is, program);
  return { path, is, ...(kept && { before: kept }) };
}

/** Creates the file under another name and renames it, so a caller of `path` gets the old file or the new one, never half of it. */
function replaceFile(path: string, is: string, program: string): void {
  const draft = `${path}.${process.pid}`;
  try {
    if (is.startsWith('link:')) symlinkSync(is.slice('link:'.length), draft);
    else copyProgram(program, draft);
    renameSync(draft, path);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}

function copyProgram(from: string, to: string): void {
  copyFileSync(from, to, constants.COPYFILE_FICLONE);
  chmodSync(to, 0o755);
  const fd = openSync(to, 'r');
  fsyncSync(fd);
  closeSync(fd);
}

function aside(path: string): string {
  return `${path}.before-parley`;
}

interface Uninstalled {
  removed: string[];
  /** Other programs that have their old path again. */
  restored: string[];
  /** Installed files that somebody has changed: they stay. */
  left: string[];
}

/** Removes the installed files that are unchanged, and gives other programs their paths back. */
export function uninstallProgram(manifest: string): Uninstalled {
  const result: Uninstalled = { removed: [], restored: [], left: [] };
  const { files, folders } = readInstalled(manifest);
  for (const { path, is, before } of files.toReversed()) {
    try {
      const there = fingerprint(path);
      if (there === is) {
        rmSync(path);
        result.removed.push(path);
      } else if (there !== null) result.left.push(path);
      if (before && fingerprint(path) === null && fingerprint(before) !== null) {
        renameSync(before, path);
        result.restored.push(path);
      }
    } catch (error) {
      throw explained(error, path, 'not everything was removed');
    }
  }
  writeManifest(manifest, { files: [], folders: [] });
  dropFolders([...folders, dirname(manifest)]);
  return result;
}
