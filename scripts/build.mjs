// `npm run build`: one compiled binary, dist/parley, that is also bch, c2c, c2c-deliver-inbox and ccc by the name it is called with.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { root, setUp } from './setup.mjs';

const EVENT = { hook_event_name: 'UserPromptSubmit', session_id: 's-1', prompt: 'go on' };
const ASKED = ['initialize', 'tools/list'].map((method, id) =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params: {} }),
);

/** What is run most often, the most frequent first, and what it reads. `alice` runs it, and mail from bob waits for her. */
const OFTEN = [
  ['send @bob hello'],
  ['c2c send bob hello'],
  ['hook claude', JSON.stringify(EVENT)],
  ['c2c poll-inbox'],
  ['inbox --as bob'],
  ['drain --as bob'],
  ['c2c mcp', `${ASKED.join('\n')}\n`],
];
/** What has to be there before that, and who runs it. */
const BEFORE = [
  ['init alice', 'alice'],
  ['init bob', 'bob'],
  ['send @alice hello', 'bob'],
  ['c2c register alice', 'alice'],
  ['c2c register bob', 'bob'],
  ['c2c send alice hello', 'bob'],
];

const bun = await setUp();
// Tests build one of their own: `node scripts/build.mjs <file>`.
const outfile = process.argv[2] ?? 'dist/parley';
mkdirSync(`${root}dist`, { recursive: true });
const trial = mkdtempSync(`${tmpdir()}/parley-build-`);
process.on('exit', () => rmSync(trial, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));

compile(`${trial}/parley`, []);
compile(outfile, ranOften(`${trial}/parley`));
if (process.argv[2]) process.exit(0);
for (const name of ['bch', 'c2c', 'c2c-deliver-inbox', 'ccc']) {
  rmSync(`${root}dist/${name}`, { force: true });
  symlinkSync('parley', `${root}dist/${name}`);
}
console.log('built dist/parley (also called as dist/bch, dist/c2c, dist/c2c-deliver-inbox, dist/ccc)');

/** `orders`: files that say which code lies together. */
function compile(file, orders) {
  const flags = [
    '--compile',
    '--bytecode',
    '--minify',
    '--format=esm',
    // Small pieces do not join others (`--min-chunk-size`): what a command does not need came along, and `c2c send` took 5 % longer.
    '--splitting',
    // Without the autoload flags a project's .env or bunfig would change what the binary does.
    '--no-compile-autoload-dotenv',
    '--no-compile-autoload-bunfig',
    // What runs once need not be compiled: without this a send takes some 3 % more CPU time.
    '--compile-jit-policy=4',
    ...orders.map((order) => `--bytecode-order=${order}`),
  ];
  // The relay's worker: a program inside the program.
  const entries = ['src/cli/main.ts', 'src/storage/spool/back-room.ts'];
  const built = spawnSync(bun, ['build', ...flags, ...entries, '--outfile', file], {
    cwd: root,
    stdio: ['ignore', file === outfile ? 'inherit' : 'ignore', 'inherit'],
  });
  if (built.status !== 0) process.exit(built.status ?? 1);
}

/** Runs what is run often and notes which code that was. Laid out together, fewer pages of the binary are read at every start. */
function ranOften(program) {
  // The nearest settings of a project count: none but these should.
  writeFileSync(`${trial}/.parley.json`, '{}');
  for (const [line, who] of BEFORE) run(program, line, who);
  return OFTEN.map(([line, input], at) => {
    const order = `${trial}/order-${at}`;
    return run(program, line, 'alice', input, { BUN_BYTECODE_ORDER_OUT: order }) ? order : '';
  }).filter((order) => existsSync(order));
}

/** True if it went well. If not, that is told, and the binary is only a little slower. */
function run(program, line, who, input = '', env = {}) {
  const session = { C2C_MCP_SESSION_ID: who, C2C_MCP_BROKER_ROOT: `${trial}/broker` };
  const ran = spawnSync(program, line.split(' '), {
    cwd: trial,
    env: { PATH: process.env.PATH, HOME: trial, PARLEY_AGENT: who, ...(line.startsWith('c2c ') && session), ...env },
    input,
    encoding: 'utf8',
    timeout: 20_000,
  });
  if (ran.status === 0) return true;
  console.error(`\`parley ${line}\` could not be tried (${ran.error?.message ?? ran.stderr.trim()})`);
  return false;
}
