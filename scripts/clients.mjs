// Brings the real clients of test/clients/ in the versions of its lock file: some 1.6 GB, once. They lie outside of
// node_modules, so that `npm ci` does not take them away: in .cache/clients, or in the folder that PARLEY_CLIENTS names.
// No install script runs: the programs are those of the platform packages.
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { npm } from './npm.mjs';
import { root } from './setup.mjs';

export const PINNED = `${root}test/clients`;
export const CLIENTS = process.env.PARLEY_CLIENTS ?? `${root}.cache/clients`;

/** The path to each client's program, as steps. Every match is tried: the processor may be too old for one. */
const PROGRAMS = {
  '@anthropic-ai/claude-code': ['node_modules/@anthropic-ai', /^claude-code-/, 'claude'],
  '@openai/codex': ['node_modules/@openai', /^codex-/, 'vendor', /./, 'bin/codex'],
  'opencode-ai': ['node_modules', /^opencode-/, 'bin/opencode'],
};
/**
 * Kimi and Gemini CLI are scripts, and many machines have an older Node than they need. If no package brings a newer one, the Node that runs
 * this script is used. Kimi needs the newest, so its requirement decides which Node runs both.
 */
const SCRIPTS = {
  '@moonshot-ai/kimi-code': 'node_modules/@moonshot-ai/kimi-code/dist/main.mjs',
  '@google/gemini-cli': 'node_modules/@google/gemini-cli/bundle/gemini.js',
};
const NODE = ['node_modules', /^node-(linux|darwin)-/, 'bin/node'];
/** The packages that are a client; the others are parts of one. */
export const PACKAGES = [...Object.keys(PROGRAMS), ...Object.keys(SCRIPTS)];

/** Installs the clients that `from` names into the folder `to`, if they are missing. Returns null, or why that failed. */
export async function bringClients({ from = PINNED, to = CLIENTS } = {}) {
  const wanted = JSON.parse(readFileSync(`${from}/package.json`, 'utf8')).dependencies;
  if (isComplete(to, wanted)) return null;
  // In a folder that another program filled, only find the programs.
  if (isInstalled(to, wanted) && lookThrough(to, wanted) === null) return null;
  if (isForeign(to)) return `${to} has files that are not ours, so it was left alone; name a new or empty folder`;
  console.error('Installing the real clients for the tests (once, some 1.6 GB) …');
  const fresh = `${to}.new-${process.pid}`;
  try {
    return (await install(from, fresh)) ?? lookThrough(fresh, wanted) ?? moveIn(fresh, to);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

/** The list of programs is written last: if it exists and names these versions, the folder is complete. */
function isComplete(place, wanted) {
  const list = `${place}/programs.json`;
  if (!existsSync(list)) return false;
  const { versions } = JSON.parse(readFileSync(list, 'utf8'));
  return Object.entries(wanted).every(([name, version]) => versions[name] === version);
}

function isInstalled(place, wanted) {
  return Object.entries(wanted).every(([name, version]) => {
    const manifest = `${place}/node_modules/${name}/package.json`;
    return existsSync(manifest) && JSON.parse(readFileSync(manifest, 'utf8')).version === version;
  });
}

async function install(from, place) {
  mkdirSync(place, { recursive: true });
  // The newest releases have no lock file.
  for (const name of ['package.json', 'package-lock.json'])
    if (existsSync(`${from}/${name}`)) copyFileSync(`${from}/${name}`, `${place}/${name}`);
  // Not `npm ci`: that wants the programs for all other platforms in the lock file too, and some registries lack them.
  const isDone = await npm(['install', '--ignore-scripts'], place);
  return isDone ? null : 'npm install did not finish; check the network or the npm registry setting';
}

/** Finds the programs, checks that they start, and records their paths. */
function lookThrough(place, versions) {
  const programs = {};
  for (const [name, steps] of Object.entries(PROGRAMS)) {
    const found = pathsIn(place, steps).find((path) => startsAs([`${place}/${path}`], versions[name]));
    if (!found) return `no program of ${name} ${versions[name]} starts on this machine`;
    programs[name] = found;
  }
  const nodes = [...pathsIn(place, NODE), process.execPath];
  for (const [name, script] of Object.entries(SCRIPTS)) {
    const node = nodes.find((path) => startsAs([resolve(place, path), `${place}/${script}`], versions[name]));
    // Without one the tests with this client are skipped by name; the others run.
    if (node) Object.assign(programs, { [name]: script, node: programs.node ?? node });
  }
  writeFileSync(`${place}/programs.json`, `${JSON.stringify({ versions, programs }, null, 2)}\n`);
  return null;
}

/** The paths below a folder that these steps lead to: a text is one name, a pattern every name that fits. */
function pathsIn(place, steps) {
  return steps.reduce(
    (paths, step) => paths.flatMap((path) => namesIn(`${place}/${path}`, step).map((name) => join(path, name))),
    [''],
  );
}

function namesIn(folder, step) {
  if (typeof step === 'string') return existsSync(`${folder}/${step}`) ? [step] : [];
  return readdirSync(folder).filter((name) => step.test(name));
}

/** In a home of its own: clients write there even when they are only asked for their version. */
function startsAs([program, ...args], version) {
  const home = mkdtempSync(`${tmpdir()}/parley-clients-`);
  const env = { ...process.env, HOME: home, CODEX_HOME: `${home}/.codex` };
  mkdirSync(env.CODEX_HOME);
  const { stdout } = spawnSync(program, [...args, '--version'], { encoding: 'utf8', env, timeout: 60_000 });
  rmSync(home, { recursive: true, force: true });
  return (stdout ?? '').includes(version);
}

/** Only what this script filled may be replaced: it has a list of programs. */
function isForeign(place) {
  return existsSync(place) && !existsSync(`${place}/programs.json`) && readdirSync(place).length > 0;
}

/** Moves a folder by renaming, so that a killed run leaves no incomplete client. */
function moveIn(fresh, place) {
  const old = `${place}.old-${process.pid}`;
  if (existsSync(place)) renameSync(place, old);
  renameSync(fresh, place);
  rmSync(old, { recursive: true, force: true });
  return null;
}

/** The clients in a folder that start on this machine; null if the folder is not filled. */
export function startingIn(place) {
  const list = `${place}/programs.json`;
  return existsSync(list) ? Object.keys(JSON.parse(readFileSync(list, 'utf8')).programs) : null;
}
