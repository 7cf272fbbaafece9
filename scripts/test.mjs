// `npm test`: format, lint, types, dead code, then every test; ends with one line `N passed, N failed`.
// Words after `--` go to the test runner: `npm test -- src/storage`.
// `npm run test:clients` brings the real clients first and runs their tests. With CI=true `npm test` does that too, as
// its last part; otherwise those tests run where the clients are, and are skipped by name where they are not.
import { spawnSync } from 'node:child_process';
import { bringClients } from './clients.mjs';
import { root, setUp } from './setup.mjs';
import { systemPackages } from './system-packages.mjs';

const bun = setUp();
const tool = (name) => `${root}node_modules/.bin/${name}`;
const CLIENTS = './test/clients/';
const withClients = process.argv[2] === '--clients';
const words = process.argv.slice(withClients ? 3 : 2);
const picked = withClients && words.length === 0 ? [CLIENTS] : words;

systemPackages();

/** Each check is one sentence; a failed one counts as one failed test. */
const checks = [
  ['the format is the formatter’s', [tool('oxfmt'), '--check', '.']],
  ['the types hold', [tool('tsc'), '-p', '.']],
  ['the linter has nothing to say', [tool('oxlint'), '--type-aware', '--quiet', '.']],
  ['nothing is dead', [tool('knip')]],
  ['the binary builds', [process.execPath, 'scripts/build.mjs']],
];

let passed = 0;
let failed = 0;
for (const [sentence, command] of picked.length > 0 ? [] : checks) {
  const [program, ...args] = command;
  const done = spawnSync(program, args, { cwd: root, encoding: 'utf8' });
  if (done.status === 0) passed += 1;
  else {
    failed += 1;
    console.log(`${done.stdout}${done.stderr}`);
  }
  console.log(`${done.status === 0 ? '✓' : '✗'} ${sentence}`);
}

if (withClients || (process.env.CI === 'true' && picked.length === 0)) {
  const why = bringClients();
  if (why === null) passed += 1;
  else failed += 1;
  console.log(why === null ? '✓ the clients are here' : `✗ the clients are here: ${why}`);
}

// How long a test may take says nothing about the product: a busy machine is not a failure. The limit only ends what hangs.
const HANGS = 600_000;
// The tests run on the source; the runtime's own cache would write into the user's home.
const env = { ...process.env, BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0' };
if (picked.length > 0) runTests(picked);
else {
  runTests(['--path-ignore-patterns=test/clients/**']);
  runTests([CLIENTS]);
}
console.log(`${passed} passed, ${failed} failed`);
// Not `exit`: that would cut off what a slow reader has not taken yet.
process.exitCode = failed === 0 ? 0 : 1;

function runTests(args) {
  const tests = spawnSync(bun, ['test', `--timeout=${HANGS}`, ...args], {
    cwd: root,
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'inherit', 'pipe'],
    maxBuffer: 1 << 28,
  });
  const told = tests.stderr ?? '';
  // Passing tests are not listed one by one: what failed, what was skipped and why, and the counts are.
  console.log(
    picked.length > 0
      ? told
      : told
          .split('\n')
          .filter((line) => !line.startsWith('(pass)') && line.trim() !== '')
          .join('\n'),
  );
  const broken = countOf(told, 'fail');
  passed += countOf(told, 'pass');
  // The runner can fail without a failed test: a file that does not load, an error between tests.
  failed += tests.status !== 0 && broken === 0 ? 1 : broken;
}

function countOf(text, word) {
  return Number(new RegExp(`^\\s*(\\d+) ${word}$`, 'm').exec(text)?.[1] ?? 0);
}
