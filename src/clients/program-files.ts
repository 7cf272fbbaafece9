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

/** One thing that `self install` put somewhere: the program, by its hash, or a further name, by what it links to. */
const Installed = new Schema(() =>
  v.object({
    path: v.string(),
    is: v.string(),
    /** Where another program is now that was in its place. */
    before: v.optional(v.string()),
  }),
);
type Installed = Described<typeof Installed>;

const Manifest = new Schema(() =>
  v.object({
    v: v.literal(1),
    files: v.array(Installed.inner),
    /** Folders that were not there before, the innermost first. They go when they are empty. */
    folders: v.optional(v.array(v.string()), []),
  }),
);
type Manifest = Described<typeof Manifest>;

/** What is installed. A file that is not listed is never taken for ours. */
export function readInstalled(path: string): Omit<Manifest, 'v'> {
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

function writeManifest(path: string, { files, folders }: Omit<Manifest, 'v'>): void {
  if (files.length === 0) return rmSync(path, { force: true });
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeFileSync(`${path}.${process.pid}`, `${JSON.stringify({ v: 1, files, folders }, null, 2)}\n`, {
    mode: 0o600,
    flush: true,
  });
  renameSync(`${path}.${process.pid}`, path);
}

/** What is at a path: a link's target, a file's hash, or null for nothing. A folder is never like anything of ours. */
function whatIs(path: string): string | null {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (!stat) return null;
  if (stat.isSymbolicLink()) return `link:${readlinkSync(path)}`;
  return stat.isFile() ? hashOf(path) : 'other';
}

function hashOf(path: string): string {
  return `sha256:${new Bun.CryptoHasher('sha256').update(readFileSync(path)).digest('hex')}`;
}

/** True if both lead to the same existing file. */
export function isSameFile(a: string, b: string): boolean {
  return existsSync(a) && existsSync(b) && realpathSync(a) === realpathSync(b);
}

/** What to install, and where. */
export interface ProgramInstall {
  /** The compiled program to install. */
  program: string;
  folder: string;
  /** Further names that the program answers to. */
  names: readonly string[];
  /** May programs of others be moved out of the way? */
  force: boolean;
  manifest: string;
}

/** A file to be made. A link is written as `link:<target>`, the program as its hash. */
interface PlannedFile extends Installed {
  there: string | null;
  foreign: boolean;
}

/** Puts the program and its further names into a folder, or changes nothing: what is not ours is found before anything is done. */
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
    const there = whatIs(path);
    const noted = known.find((file) => file.path === path);
    // Ours: what we recorded and nobody changed since, or what we would put there anyway.
    const ours = there === null || there === noted?.is || there === is || isSameFile(path, order.program);
    return { path, is, there, foreign: !ours, ...(noted?.before && { before: noted.before }) };
  });
}

function refuseForeign(plans: PlannedFile[], force: boolean): void {
  for (const { path, foreign } of plans) {
    if (!foreign) continue;
    if (!force) {
      throw new Refusal(
        'name_taken',
        `${path} is another program; nothing was installed: leave its name out, choose another --dir, or say --force to keep it as ${aside(path)}`,
      );
    }
    if (whatIs(aside(path)) !== null) {
      throw new Refusal(
        'name_taken',
        `${aside(path)} exists already, so ${path} cannot be kept; nothing was installed: move one of them away`,
      );
    }
  }
}

function putInPlace({ path, is, there, foreign, before }: PlannedFile, program: string): Installed {
  if (foreign) renameSync(path, aside(path));
  const kept = foreign ? aside(path) : before;
  if (there !== is) put(path, is, program);
  return { path, is, ...(kept && { before: kept }) };
}

/** Made under another name and then renamed: a caller gets the old one or the new one, never half of it. */
function put(path: string, is: string, program: string): void {
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
  /** Programs of others that are in their old place again. */
  restored: string[];
  /** What was ours and was changed since. */
  left: string[];
}

/** Removes exactly what was installed, and nothing that others put in its place since. */
export function uninstallProgram(manifest: string): Uninstalled {
  const result: Uninstalled = { removed: [], restored: [], left: [] };
  const { files, folders } = readInstalled(manifest);
  for (const { path, is, before } of files.toReversed()) {
    try {
      const there = whatIs(path);
      if (there === is) {
        rmSync(path);
        result.removed.push(path);
      } else if (there !== null) result.left.push(path);
      if (before && whatIs(path) === null && whatIs(before) !== null) {
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
