// `npm run build`: one compiled binary, dist/parley, that is also bch, c2c, c2c-deliver-inbox and ccc by the name it is called with.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { root, setUp } from './setup.mjs';

/** What is run most often, the most frequent first. Each looks like a line of a shell. */
const OFTEN = [
  'parley send @bob hello',
  'parley c2c send bob hello',
  'parley c2c poll-inbox',
  'parley hook claude',
  'parley inbox --as bob',
  'parley drain --as bob',
  'parley c2c mcp',
];
/** What has to be there before that. */
const BEFORE = ['alice', 'bob'].flatMap((name) => [`parley init ${name}`, `parley c2c register ${name}`]);

const bun = setUp();
// Tests build one of their own: `node scripts/build.mjs <file>`.
const outfile = process.argv[2] ?? 'dist/parley';
mkdirSync(`${root}dist`, { recursive: true });
const trial = mkdtempSync(`${tmpdir()}/parley-build-`);
try {
  compile(`${trial}/parley`, []);
  compile(outfile, ranOften(`${trial}/parley`));
} finally {
  rmSync(trial, { recursive: true, force: true });
}
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
    '--splitting',
    // Each piece of a program has to be found and linked at the start, however small it is: small ones join others.
    '--min-chunk-size=16384',
    // Without the autoload flags a project's .env or bunfig would change what the binary does.
    '--no-compile-autoload-dotenv',
    '--no-compile-autoload-bunfig',
    // A command that runs for 10 ms should not spend one of them on compiling what it runs once.
    '--compile-jit-policy=4',
    ...orders.map((order) => `--bytecode-order=${order}`),
  ];
  // The relay's worker: a program inside the program.
  const entries = ['src/cli/main.ts', 'src/storage/spool/back-room.ts'];
  const built = spawnSync(bun, ['build', ...flags, ...entries, '--outfile', file], {
    cwd: root,
    stdio: ['ignore', orders.length > 0 ? 'inherit' : 'ignore', 'inherit'],
  });
  if (built.status !== 0) process.exit(built.status ?? 1);
}

/** Runs what is run often and notes which code that was. Laid out together, fewer pages of the binary are read at every start. */
function ranOften(program) {
  const run = (line, session, order) =>
    spawnSync(program, line.split(' ').slice(1), {
      cwd: trial,
      env: {
        PATH: process.env.PATH,
        HOME: trial,
        PARLEY_AGENT: 'alice',
        ...(line.includes(' c2c ') && { C2C_MCP_SESSION_ID: session, C2C_MCP_BROKER_ROOT: `${trial}/broker` }),
        ...(order && { BUN_BYTECODE_ORDER_OUT: order }),
      },
      input: '',
      timeout: 20_000,
    });
  for (const line of BEFORE) run(line, line.split(' ').at(-1));
  return OFTEN.map((line, at) => {
    run(line, 'alice', `${trial}/order-${at}`);
    return `${trial}/order-${at}`;
  }).filter((order) => existsSync(order));
}
