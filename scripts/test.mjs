// `npm test`: every test, and beside them format, types, linter and dead code; ends with one line `N passed, N failed`.
// Words after `--` pick test files, options go to `bun test`: `npm test -- src/store -t crash`.
// The tests start the compiled program, so it is built first where it is missing or older than the sources.
// `npm run test:clients` brings the real clients and runs all tests with them. `npm test` runs one test for each client,
// where the clients are; with CI=true it brings them.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { resolve } from 'node:path';
import { isBuilt, PROGRAM } from './built.mjs';
import { bringClients, CLIENTS } from './clients.mjs';
import { seconds } from './npm.mjs';
import { root, setUp } from './setup.mjs';
import { systemPackages } from './system-packages.mjs';

/** The tests with real clients, and the one file of them that belongs to the whole. */
const CLIENT_TESTS = /^test\/clients\/[^/]+$/;
const SMOKE = 'test/clients/smoke.test.ts';
/** A test that takes this long hangs. The limit says nothing about the product: a busy machine is not a failure. */
const HANGS_MS = 600_000;
/** Most tests wait now and then, so one process more than cores; more than three disturb each other. */
const PROCESSES = Math.min(availableParallelism() + 1, 3);
/** These take long for their size, so they begin first. */
const LONG = [
  'test/drills/drills.test.ts',
  'test/clients/smoke.test.ts',
  'test/scenarios/remote-parley.test.ts',
  'test/scenarios/parley-install.test.ts',
  'test/scenarios/install-allow.test.ts',
  'test/scenarios/hook.always.test.ts',
  'test/scenarios/self-clients.test.ts',
  'src/protocols/c2c/mailbox.crash.test.ts',
  'src/store/maildir/maildir.crash.test.ts',
  'src/store/maildir/exported-maildir.test.ts',
  'src/protocols/c2c/mailbox.test.ts',
];
/** These bear no company, for the reason beside each. They run one after the other at the end. */
const ALONE = {};

const withClients = process.argv[2] === '--clients';
const words = process.argv.slice(withClients ? 3 : 2);
const firstOption = words.findIndex((word) => word.startsWith('-'));
const picked = firstOption === -1 ? words : words.slice(0, firstOption);
// A file in which an option finds no test is no failure.
const options = firstOption === -1 ? [] : ['--pass-with-no-tests', ...words.slice(firstOption)];
const isWhole = words.length === 0 && !withClients;
const files = testFiles();

let passed = 0;
let failed = 0;
let ended = 0;
const running = new Set();
/** The outcome of each test. They are kept where PARLEY_TEST_RESULTS names a file. */
const results = [];

const bun = await setUp();
systemPackages();

// Tests get an empty home of their own, so that none of them can write into the user's.
const home = mkdtempSync(`${tmpdir()}/parley-npm-test-`);
process.on('exit', () => rmSync(home, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM'])
  process.on(signal, () => {
    for (const child of running) child.kill();
    process.exit(1);
  });

if (isWhole || !isBuilt()) await check('the binary builds', () => run(process.execPath, ['scripts/build.mjs']));
const checks = isWhole ? checkSources() : null;
if (withClients || (isWhole && process.env.CI === 'true')) await check('the real clients are here', bringClients);
await runFiles(
  files.filter((file) => !ALONE[file]),
  PROCESSES,
);
await runFiles(
  files.filter((file) => ALONE[file]),
  1,
);
await checks;
if (isWhole) await check('no test wrote into the home folder', whatIsInHome);
if (ended === 0) {
  failed += 1;
  console.log(`no test is called so: ${words.join(' ')}`);
}
if (process.env.PARLEY_TEST_RESULTS) writeFileSync(process.env.PARLEY_TEST_RESULTS, JSON.stringify({ tests: results }));
// An option may leave out tests, which are no failures then.
if (withClients && options.length === 0) await check('README says how mail reaches each client', tableOfClients);
console.log(`${passed} passed, ${failed} failed`);
// Not `exit`: that would cut off what a slow reader has not taken yet.
process.exitCode = failed === 0 ? 0 : 1;

/** The files that the words pick: a part of a path, or a file anywhere. */
function testFiles() {
  const inFolder = (folder) => readdirSync(`${root}${folder}`, { recursive: true }).map((name) => `${folder}/${name}`);
  const all = ['src', 'test', 'plugins'].flatMap(inFolder).filter((path) => path.endsWith('.test.ts'));
  if (isWhole) return all.filter((path) => !CLIENT_TESTS.test(path) || path === SMOKE);
  if (picked.length === 0) return all.filter((path) => !withClients || path.startsWith('test/clients/'));
  const found = picked.flatMap((word) => {
    const part = word.replace(/^\.\//, '');
    const fits = all.filter((path) => path.includes(part));
    return fits.length === 0 && existsSync(word) ? [resolve(word)] : fits;
  });
  return [...new Set(found)];
}

async function checkSources() {
  const tool = (name) => `${root}node_modules/.bin/${name}`;
  await check('the format is the formatter’s', () => run(tool('oxfmt'), ['--check', '.']));
  await check('the types hold', () => run(tool('tsc'), ['-p', '.']));
  await check('the linter finds nothing', () => run(tool('oxlint'), ['--type-aware', '--quiet', '.']));
  await check('no code is dead', () => run(tool('knip'), []));
}

function whatIsInHome() {
  const written = readdirSync(home, { recursive: true });
  return written.length === 0 ? null : `these are new:\n${written.join('\n')}`;
}

/** README's table of clients is made from what passed. */
async function tableOfClients() {
  writeFileSync(`${home}/results.json`, JSON.stringify({ files, tests: results }));
  return run(bun, ['test/clients/reach.ts', `${home}/results.json`, `${CLIENTS}/programs.json`]);
}

/** Counts as one test. `why` returns null, or why it failed. */
async function check(sentence, why) {
  const began = Date.now();
  const reason = await why();
  if (reason === null) passed += 1;
  else {
    failed += 1;
    console.log(reason);
  }
  console.log(`${reason === null ? '✓' : '✗'} ${sentence} (${seconds(Date.now() - began)})`);
}

/** Returns null if the program succeeded, otherwise all that it printed. */
async function run(program, args) {
  const { output, end } = await spawned(program, args);
  return end === 0 ? null : output;
}

/** Runs a program to its end. `end` is its exit code, or the signal that ended it. */
function spawned(program, args, env = process.env) {
  const child = spawn(program, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text));
  return new Promise((resolve) => {
    child.on('error', (error) => resolve({ output: error.message, end: 'an error' }));
    child.on('close', (code, signal) => {
      running.delete(child);
      resolve({ output, end: signal ?? code });
    });
  });
}

/** Runs these files, so many at a time, the longest first. */
async function runFiles(some, processes) {
  const guess = (file) => statSync(resolve(root, file)).size * (file.startsWith('src/') ? 1 : 5);
  const queue = [...some].sort((a, b) => LONG.includes(b) - LONG.includes(a) || guess(b) - guess(a));
  const work = async () => {
    for (let file = queue.shift(); file; file = queue.shift()) await runFile(file);
  };
  await Promise.all(Array.from({ length: processes }, work));
}

/** Runs the tests of one file and prints one line; before it failed and skipped tests, with what they say. */
async function runFile(file) {
  const env = {
    ...process.env,
    HOME: home,
    PARLEY_NO_DAEMON: '1',
    BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0',
    PARLEY_TEST_PROGRAM: PROGRAM,
  };
  for (const name of Object.keys(env)) if (name.startsWith('XDG_')) delete env[name];
  const began = Date.now();
  const path = file.startsWith('/') ? file : `./${file}`;
  const { output, end } = await spawned(bun, ['test', `--timeout=${HANGS_MS}`, path, ...options], env);
  const counts = { passed: 0, failed: 0, skipped: 0 };
  for (const line of output.split('\n')) {
    // Here the runner sums up, and lists once more what failed and what was skipped.
    if (/^\s*\d+ (pass|tests? (failed|skipped|todo):)$/.test(line)) break;
    const [, outcome, title = ''] = /^\((pass|fail|skip|todo)\) (.*?)(?: \[[\d.]+m?s\])?$/.exec(line) ?? [];
    if (outcome) results.push({ file, title, outcome: outcome === 'todo' ? 'skip' : outcome });
    if (outcome) counts[{ pass: 'passed', fail: 'failed', skip: 'skipped', todo: 'skipped' }[outcome]] += 1;
    if (outcome !== 'pass' && line.trim() !== '' && !/^(bun test v.*|error: regex .*|\S+\.test\.ts:)$/.test(line))
      console.log(line);
  }
  // It can fail without a failed test: it was killed, the file does not load, an error came between tests.
  if (end !== 0 && counts.failed === 0) {
    counts.failed = 1;
    console.log(`✗ ${file} ended with ${end}`);
  }
  const told = Object.entries(counts).filter(([, count]) => count > 0);
  if (told.length === 0) return;
  passed += counts.passed;
  failed += counts.failed;
  ended += 1;
  const at = `${String(ended).padStart(String(files.length).length)}/${files.length}`;
  console.log(
    `${at} ${file}: ${told.map(([word, count]) => `${count} ${word}`).join(', ')} (${seconds(Date.now() - began)})`,
  );
}
