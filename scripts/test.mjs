// `npm test`: format, lint, types, dead code, then every test; ends with one line `N passed, N failed`.
// Words after `--` go to the test runner: `npm test -- src/storage`.
// `npm run test:clients` brings the real clients first and runs their tests. With CI=true `npm test` does that too, as
// its last part; otherwise those tests run where the clients are, and are skipped by name where they are not.
import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { createInterface } from 'node:readline';
import { bringClients } from './clients.mjs';
import { seconds } from './npm.mjs';
import { root, setUp } from './setup.mjs';
import { systemPackages } from './system-packages.mjs';

const CLIENTS = 'test/clients/';
const withClients = process.argv[2] === '--clients';
const words = process.argv.slice(withClients ? 3 : 2);
const picked = withClients && words.length === 0 ? [`./${CLIENTS}`] : words;
const isWhole = picked.length === 0;

/** A test that takes this long hangs. The limit says nothing about the product: a busy machine is not a failure. */
const HANGS_MS = 600_000;

let passed = 0;
let failed = 0;

const bun = await setUp();
systemPackages();

// Tests get an empty home of their own, so that none of them can write into the user's.
const home = mkdtempSync(`${tmpdir()}/parley-npm-test-`);
process.on('exit', () => rmSync(home, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));

const tool = (name) => `${root}node_modules/.bin/${name}`;
if (isWhole) {
  await check('the format is the formatter’s', () => run(tool('oxfmt'), ['--check', '.']));
  await check('the types hold', () => run(tool('tsc'), ['-p', '.']));
  await check('the linter finds nothing', () => run(tool('oxlint'), ['--type-aware', '--quiet', '.']));
  await check('no code is dead', () => run(tool('knip'), []));
  await check('the binary builds', () => run(process.execPath, ['scripts/build.mjs']));
}
if (withClients || (process.env.CI === 'true' && isWhole)) await check('the real clients are here', bringClients);
if (isWhole) {
  await runTests(['--path-ignore-patterns=test/clients/**'], (file) => !file.startsWith(CLIENTS));
  await runTests([`./${CLIENTS}`], (file) => file.startsWith(CLIENTS));
  await check('no test wrote into the home folder', () => {
    const written = readdirSync(home, { recursive: true });
    return written.length === 0 ? null : `these are new:\n${written.join('\n')}`;
  });
} else await runTests(picked, null);
console.log(`${passed} passed, ${failed} failed`);
// Not `exit`: that would cut off what a slow reader has not taken yet.
process.exitCode = failed === 0 ? 0 : 1;

/** Counts as one test. `why` returns null, or why it failed. */
async function check(sentence, why) {
  console.log(`… ${sentence}`);
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
function run(program, args) {
  const child = spawn(program, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text));
  return new Promise((resolve) => {
    child.on('error', (error) => resolve(error.message));
    child.on('close', (code) => resolve(code === 0 ? null : output));
  });
}

/** Runs tests and prints one line when each file ends; failed and skipped tests with what they say. */
async function runTests(args, belongs) {
  const total = belongs === null ? null : testFiles().filter(belongs).length;
  const env = { ...process.env, HOME: home, BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0' };
  for (const name of Object.keys(env)) if (name.startsWith('XDG_')) delete env[name];
  const child = spawn(bun, ['test', `--timeout=${HANGS_MS}`, ...args], {
    cwd: root,
    env,
    stdio: ['ignore', 'inherit', 'pipe'],
  });
  const closed = new Promise((resolve) => child.on('close', resolve));
  let files = 0;
  let current = null;
  let broken = 0;
  const fileEnds = () => {
    if (!current) return;
    const { path, began, counts } = current;
    const told = Object.entries(counts).filter(([, count]) => count > 0);
    const at = total === null ? '' : `${String(files).padStart(String(total).length)}/${total} `;
    console.log(
      `${at}${path}: ${told.map(([word, count]) => `${count} ${word}`).join(', ')} (${seconds(Date.now() - began)})`,
    );
    current = null;
  };
  for await (const line of createInterface({ input: child.stderr })) {
    const file = /^(\S+\.test\.ts):$/.exec(line);
    const outcome = /^\((pass|fail|skip|todo)\)/.exec(line)?.[1];
    const sum = /^\s*(\d+) (pass|fail)$/.exec(line);
    // The runner lists what failed and what was skipped once more at its end.
    if (/^\d+ tests? (failed|skipped|todo):$/.test(line)) fileEnds();
    if (file) {
      fileEnds();
      files += 1;
      current = { path: file[1], began: Date.now(), counts: { passed: 0, failed: 0, skipped: 0 } };
    } else if (sum) {
      fileEnds();
      if (sum[2] === 'pass') passed += Number(sum[1]);
      else broken += Number(sum[1]);
    }
    if (outcome && current)
      current.counts[{ pass: 'passed', fail: 'failed', skip: 'skipped', todo: 'skipped' }[outcome]] += 1;
    if (!file && outcome !== 'pass' && line.trim() !== '') console.log(line);
  }
  fileEnds();
  // The runner can fail without a failed test: a file that does not load, an error between tests.
  failed += (await closed) !== 0 && broken === 0 ? 1 : broken;
}

function testFiles() {
  const inFolder = (folder) => readdirSync(`${root}${folder}`, { recursive: true }).map((name) => `${folder}/${name}`);
  return [...inFolder('src'), ...inFolder('test'), ...inFolder('plugins')].filter((path) => path.endsWith('.test.ts'));
}
