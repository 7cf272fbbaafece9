// Brings the npm packages of the lock file, once, and names the Bun that came with them.
// Plain Node: this runs before anything is installed.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { npm } from './npm.mjs';

export const root = fileURLToPath(new URL('..', import.meta.url));
const modules = `${root}node_modules`;
const stamp = `${modules}/.parley-setup`;

/** True when node_modules was filled from exactly this lock file. */
function isFresh() {
  return existsSync(stamp) && readFileSync(stamp, 'utf8') === readFileSync(`${root}package-lock.json`, 'utf8');
}

/** Installs what the lock file says, if that has not been done; then returns the path of Bun. */
export async function setUp() {
  if (!isFresh()) {
    console.error('Installing the npm packages of Parley (once) …');
    if (!(await npm(['ci'], root))) {
      console.error('npm ci failed. Check the network or the npm registry setting, then run this again.');
      process.exit(1);
    }
    writeFileSync(stamp, readFileSync(`${root}package-lock.json`));
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
