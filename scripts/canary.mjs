// `npm run canary`: do the newest releases of the clients still work with Parley? Brings them into a folder of their own
// (.cache/canary, or what PARLEY_CANARY names), runs the tests with real clients on them, and says what changed since the
// versions of test/clients/package.json. Without words it runs one test for each client; words after `--` pick test files:
// `npm run canary -- test/clients/live-claude.test.ts`, or `-- test/clients/` for all.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { bringClients, CLIENTS, PACKAGES, PINNED, startingIn } from './clients.mjs';
import { root } from './setup.mjs';

const SMOKE = 'test/clients/smoke.test.ts';
const MARKS = { pass: '✓', fail: '✗', skip: '–' };
const folder = process.env.PARLEY_CANARY ?? `${root}.cache/canary`;
const words = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(`${PINNED}/package.json`, 'utf8'));

process.exitCode = await canary();

async function canary() {
  const newest = {};
  for (const name of Object.keys(manifest.dependencies)) {
    const version = newestOf(name);
    if (version === null) {
      console.log('the npm registry does not answer, so the newest releases cannot be had; nothing was run');
      return 1;
    }
    newest[name] = version;
  }
  const changed = Object.entries(manifest.dependencies).filter(([name, version]) => newest[name] !== version);
  for (const [name, version] of Object.entries(manifest.dependencies))
    console.log(`${name} ${version}${newest[name] === version ? ' is the newest' : ` → ${newest[name]}`}`);
  if (changed.length === 0) {
    console.log('nothing is newer than what the tests use; nothing was run');
    return 0;
  }
  const why = await bringNewest(newest);
  if (why !== null) {
    console.log(why);
    return 1;
  }
  // The tests of such a client are skipped, so they would not report it.
  const broken = PACKAGES.filter((name) => !startsAgain(name));
  const after = await runTests(folder);
  const failed = after.filter(({ outcome }) => outcome === 'fail');
  // A test that also fails with the pinned versions was not broken by a new release.
  const before = failed.length > 0 && existsSync(`${CLIENTS}/programs.json`) ? await runTests(CLIENTS) : null;
  for (const { title, outcome } of after) console.log(`${MARKS[outcome]} ${title}${blame(title, outcome, before)}`);
  for (const name of broken) console.log(`${MARKS.fail} ${name} ${newest[name]} does not start on this machine`);
  if (after.length === 0) console.log('no test ran');
  const passed = after.filter(({ outcome }) => outcome === 'pass').length;
  const failures = failed.length + broken.length;
  console.log(`${passed} passed, ${failures} failed with the newest releases`);
  return failures === 0 && passed > 0 ? 0 : 1;
}

/** Does the newest release start, or did the pinned one not start here either? */
function startsAgain(name) {
  const before = startingIn(CLIENTS);
  return startingIn(folder)?.includes(name) || (before !== null && !before.includes(name));
}

function blame(title, outcome, before) {
  if (outcome !== 'fail') return '';
  if (before === null) return ' (not tried with the pinned versions: npm run test:clients brings them)';
  const was = before.find((one) => one.title === title)?.outcome;
  return was === 'pass' ? ' (passes with the pinned versions)' : ' (fails with the pinned versions, too)';
}

/** The version that npm calls the latest; null if the registry does not answer. */
function newestOf(name) {
  const { status, stdout } = spawnSync('npm', ['view', name, 'dist-tags.latest', '--fetch-retries=1'], {
    encoding: 'utf8',
    timeout: 60_000,
  });
  return status === 0 && /^\d\S*$/.test(stdout.trim()) ? stdout.trim() : null;
}

async function bringNewest(dependencies) {
  const wanted = mkdtempSync(`${tmpdir()}/parley-canary-`);
  try {
    writeFileSync(`${wanted}/package.json`, JSON.stringify({ ...manifest, dependencies }, null, 2));
    mkdirSync(folder, { recursive: true });
    return await bringClients({ from: wanted, to: folder });
  } finally {
    rmSync(wanted, { recursive: true, force: true });
  }
}

/** The outcome of each test, with the clients of a folder. */
async function runTests(clients) {
  const picked = words.length > 0 ? words : [SMOKE];
  const results = `${mkdtempSync(`${tmpdir()}/parley-canary-`)}/results.json`;
  const env = { ...process.env, PARLEY_CLIENTS: clients, PARLEY_ANY_CLIENTS: '1', PARLEY_TEST_RESULTS: results };
  const child = spawn(process.execPath, ['scripts/test.mjs', ...picked], { cwd: root, env, stdio: 'inherit' });
  await new Promise((resolve) => child.on('close', resolve));
  try {
    return existsSync(results) ? JSON.parse(readFileSync(results, 'utf8')).tests : [];
  } finally {
    rmSync(results.slice(0, results.lastIndexOf('/')), { recursive: true, force: true });
  }
}
