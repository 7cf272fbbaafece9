// `npm run build`: one compiled binary, dist/parley, that is also bch, c2c and ccc by the name it is called with.
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { root, setUp } from './setup.mjs';

const bun = setUp();
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
    '--no-compile-autoload-dotenv',
    '--no-compile-autoload-bunfig',
    'src/cli/main.ts',
    '--outfile',
    'dist/parley',
  ],
  { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] },
);
if (built.status !== 0) process.exit(built.status ?? 1);
for (const name of ['bch', 'c2c', 'ccc']) {
  rmSync(`${root}dist/${name}`, { force: true });
  symlinkSync('parley', `${root}dist/${name}`);
}
console.log('built dist/parley (also called as dist/bch, dist/c2c, dist/ccc)');
