// Brings the real clients of test/clients/ in the versions of its lock file: some 750 MB, once. They lie outside of
// node_modules, so that `npm ci` does not take them away: in .cache/clients, or in the folder that PARLEY_CLIENTS names.
// No install script runs: the programs are those of the platform packages.
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { npm } from './npm.mjs';
import { root } from './setup.mjs';

const pinned = `${root}test/clients`;
const folder = process.env.PARLEY_CLIENTS ?? `${root}.cache/clients`;

/** Where the program of a client is, in its folder: each of these that exists is tried. A processor may be too old for one. */
const PROGRAMS = {
  '@anthropic-ai/claude-code': { above: 'node_modules/@anthropic-ai', name: /^claude-code-/, file: 'claude' },
  'opencode-ai': { above: 'node_modules', name: /^opencode-/, file: 'bin/opencode' },
};

/** Brings the clients if they are not there. Returns null, or why they could not be had. */
export async function bringClients() {
  if (isComplete()) return null;
  // A folder that somebody else filled needs only to be looked through.
  if (isInstalled(folder) && lookThrough(folder) === null) return null;
  console.error('Installing the real clients for the tests (once, some 750 MB) …');
  const fresh = `${folder}.new-${process.pid}`;
  try {
    return (await install(fresh)) ?? lookThrough(fresh) ?? moveIn(fresh);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

const wanted = () => JSON.parse(readFileSync(`${pinned}/package.json`, 'utf8')).dependencies;

/** The list of programs is written last: where it is, and names these versions, nothing is missing. */
function isComplete() {
  const list = `${folder}/programs.json`;
  if (!existsSync(list)) return false;
  const { versions } = JSON.parse(readFileSync(list, 'utf8'));
  return Object.entries(wanted()).every(([name, version]) => versions[name] === version);
}

function isInstalled(place) {
  return Object.entries(wanted()).every(([name, version]) => {
    const manifest = `${place}/node_modules/${name}/package.json`;
    return existsSync(manifest) && JSON.parse(readFileSync(manifest, 'utf8')).version === version;
  });
}

async function install(place) {
  mkdirSync(place, { recursive: true });
  for (const name of ['package.json', 'package-lock.json']) copyFileSync(`${pinned}/${name}`, `${place}/${name}`);
  // Not `npm ci`: that wants the programs for all other platforms in the lock file too, and some registries lack them.
  const isDone = await npm(['install', '--ignore-scripts'], place);
  return isDone ? null : 'npm install did not finish; check the network or the npm registry setting';
}

/** Finds the programs, sees that they start, and writes down where they are. */
function lookThrough(place) {
  const versions = wanted();
  const programs = {};
  for (const [name, { above, name: pattern, file }] of Object.entries(PROGRAMS)) {
    const found = readdirSync(`${place}/${above}`)
      .filter((one) => pattern.test(one))
      .map((one) => `${above}/${one}/${file}`)
      .find((path) => startsAs(`${place}/${path}`, versions[name]));
    if (!found) return `no program of ${name} ${versions[name]} starts on this machine`;
    programs[name] = found;
  }
  writeFileSync(`${place}/programs.json`, `${JSON.stringify({ versions, programs }, null, 2)}\n`);
  return null;
}

function startsAs(path, version) {
  if (!existsSync(path)) return false;
  const { stdout } = spawnSync(path, ['--version'], { encoding: 'utf8', timeout: 60_000 });
  return (stdout ?? '').includes(version);
}

/** In one step, so that a run which is killed leaves no half of a client behind. */
function moveIn(fresh) {
  rmSync(folder, { recursive: true, force: true });
  renameSync(fresh, folder);
  return null;
}
