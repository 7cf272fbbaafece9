// `npm run build`: one compiled binary, dist/parley, that is also bch, c2c, c2c-deliver-inbox and ccc by the name it is called with.
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { root, setUp } from './setup.mjs';

const bun = setUp();
// Tests build one of their own: `node scripts/build.mjs <file>`.
const outfile = process.argv[2] ?? 'dist/parley';
mkdirSync(`${root}dist`, { recursive: true });
// Without the autoload flags a project's .env or bunfig would change what the binary does.
const built = spawnSync(
  bun,
  [
    'build',
    '--compile',
    '--bytecode',
    '--minify',
    '--format=esm',
    '--splitting',
    // Each piece of a program has to be found and linked at the start, however small it is: small ones join others.
    '--min-chunk-size=16384',
    '--no-compile-autoload-dotenv',
    '--no-compile-autoload-bunfig',
    // A command that runs for 10 ms should not spend one of them on compiling what it runs once.
    '--compile-jit-policy=4',
    'src/cli/main.ts',
    // The relay's worker: a program inside the program.
    'src/storage/spool/back-room.ts',
    '--outfile',
    outfile,
  ],
  { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] },
);
if (built.status !== 0 || process.argv[2]) process.exit(built.status ?? 1);
for (const name of ['bch', 'c2c', 'c2c-deliver-inbox', 'ccc']) {
  rmSync(`${root}dist/${name}`, { force: true });
  symlinkSync('parley', `${root}dist/${name}`);
}
console.log('built dist/parley (also called as dist/bch, dist/c2c, dist/c2c-deliver-inbox, dist/ccc)');
