// Installs the npm packages of the lock file, once, and returns the path of their Bun.
// Plain Node: this runs before anything is installed.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { npm } from './npm.mjs';

export const root = fileURLToPath(new URL('..', import.meta.url));
const modules = `${root}node_modules`;

/** True when node_modules holds what this lock file says, no matter who ran npm. npm writes its own list when it is done. */
function isFresh() {
  const list = `${modules}/.package-lock.json`;
  if (!existsSync(list)) return false;
  const [here, wanted] = [list, `${root}package-lock.json`].map((path) => JSON.parse(readFileSync(path)).packages);
  return Object.entries(wanted).every(
    // A missing optional package is for another platform.
    ([path, { version, optional }]) => path === '' || (here[path] ? here[path].version === version : optional),
  );
}

/** Installs the packages of the lock file if needed, and returns the path of Bun. */
export async function setUp() {
  if (!isFresh()) {
    console.error('Installing the npm packages of Parley (once) …');
    if (!(await npm(['ci'], root))) {
      console.error('npm ci failed. Check the network or the npm registry setting, then run this again.');
      process.exit(1);
    }
  }
  return bunPath();
}

/** The platform package's own binary: it is there even where npm does not run install scripts. */
function bunPath() {
  const vendor = `${modules}/@oven`;
  for (const name of existsSync(vendor) ? readdirSync(vendor) : []) {
    const path = `${vendor}/${name}/bin/bun`;
    if (existsSync(path) && spawnSync(path, ['--version']).status === 0) return path;
  }
  const launcher = `${modules}/bun/bin/bun.exe`;
  if (spawnSync(launcher, ['--version']).status === 0) return launcher;
  console.error(
    'No Bun for this platform came with the npm packages; Parley runs on Linux, macOS and WSL (x64, arm64).',
  );
  process.exit(1);
}

/** Runs Bun with these arguments in the project's root and ends this process the way Bun ended. */
export async function runBun(args, options = {}) {
  const done = spawnSync(await setUp(), args, { cwd: root, stdio: 'inherit', ...options });
  process.exit(done.status ?? 1);
}
