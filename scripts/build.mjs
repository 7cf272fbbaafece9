// `npm run build`: one compiled binary, dist/parley, that is also bch, c2c, c2c-deliver-inbox and ccc by the name it is called with.
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { root, setUp } from './setup.mjs';

const FLAGS = [
  '--compile',
  '--bytecode',
  '--minify',
  '--format=esm',
  // A command loads its own code and no other command's.
  '--splitting',
  // Without these flags, a project's .env or bunfig would change the binary's behaviour.
  '--no-compile-autoload-dotenv',
  '--no-compile-autoload-bunfig',
  // Code that runs once need not be compiled: without this a send takes some 3 % more CPU time.
  '--compile-jit-policy=4',
];
// A worker is a program inside the program: that of the relay, and the one that draws pictures.
const ENTRIES = ['src/cli/main.ts', 'src/store/maildir/export-worker.ts', 'src/sessions/picture/png-worker.ts'];

const bun = await setUp();
mkdirSync(`${root}dist`, { recursive: true });
const built = spawnSync(bun, ['build', ...FLAGS, ...ENTRIES, '--outfile', 'dist/parley'], {
  cwd: root,
  stdio: ['ignore', 'inherit', 'inherit'],
});
if (built.status !== 0) process.exit(built.status ?? 1);
for (const name of ['bch', 'c2c', 'c2c-deliver-inbox', 'ccc']) {
  rmSync(`${root}dist/${name}`, { force: true });
  symlinkSync('parley', `${root}dist/${name}`);
}
console.log('built dist/parley (also called as dist/bch, dist/c2c, dist/c2c-deliver-inbox, dist/ccc)');
