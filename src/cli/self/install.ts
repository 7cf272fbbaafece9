import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { join } from 'node:path';
import { missingFolders } from '../../clients/settings/file.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { explained } from '../../storage/disk.ts';
import { hashOf, isSameFile, readManifest, whatIs, writeManifest } from './manifest.ts';
import type { Installed } from './manifest.ts';

export interface Wish {
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
interface Plan extends Installed {
  there: string | null;
  foreign: boolean;
}

/** Puts the program and its further names into a folder, or changes nothing: what is not ours is found before anything is done. */
export function install(wish: Wish): Installed[] {
  const known = readManifest(wish.manifest);
  const plans = planned(wish, known.files);
  refuseForeign(plans, wish.force);
  try {
    const folders = [...missingFolders(join(wish.folder, 'parley')), ...known.folders];
    mkdirSync(wish.folder, { recursive: true });
    const done = plans.map((plan) => carryOut(plan, wish.program));
    const others = known.files.filter((old) => !done.some((file) => file.path === old.path));
    writeManifest(wish.manifest, { files: [...others, ...done], folders });
    return done;
  } catch (error) {
    throw explained(error, wish.folder, 'not everything was installed');
  }
}

function planned(wish: Wish, known: Installed[]): Plan[] {
  const own = hashOf(wish.program);
  const wanted = [{ name: 'parley', is: own }, ...wish.names.map((name) => ({ name, is: 'link:parley' }))];
  return wanted.map(({ name, is }) => {
    const path = join(wish.folder, name);
    const there = whatIs(path);
    const noted = known.find((file) => file.path === path);
    // Ours: what we noted and nobody changed since, or what is what we would put there anyway.
    const ours = there === null || there === noted?.is || there === is || isSameFile(path, wish.program);
    return { path, is, there, foreign: !ours, ...(noted?.before && { before: noted.before }) };
  });
}

function refuseForeign(plans: Plan[], force: boolean): void {
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

function carryOut({ path, is, there, foreign, before }: Plan, program: string): Installed {
  if (foreign) renameSync(path, aside(path));
  const kept = foreign ? aside(path) : before;
  if (there !== is) put(path, is, program);
  return { path, is, ...(kept && { before: kept }) };
}

/** Made under another name and then renamed: whoever calls it meanwhile gets the old one or the new one, never half of it. */
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
