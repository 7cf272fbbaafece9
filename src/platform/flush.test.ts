import { expect, it } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';

const STRACE = Bun.which('strace');

/** Flushes a file in a program whose first fsync fails like this, and returns what it says. */
function flushedWith(error: string): string {
  const path = `${temporaryHome()}/file`;
  writeFileSync(path, 'hello');
  const flush = new URL('./files.ts', import.meta.url).pathname;
  const program = `
    const { flush } = await import('${flush}');
    try { flush(require('node:fs').openSync('${path}', 'r+')); console.log('flushed'); } catch ({ code }) { console.log(code); }
  `;
  const traced = [
    STRACE ?? '',
    '-f',
    '-qq',
    '-e',
    'trace=fsync',
    '-e',
    `inject=fsync:error=${error}:when=1`,
    '-P',
    path,
  ];
  return Bun.spawnSync([...traced, process.execPath, '-e', program])
    .stdout.toString()
    .trim();
}

it.skipIf(!STRACE)('a flush that a signal interrupted is tried again, and no other failure is', () => {
  expect(flushedWith('EINTR')).toBe('flushed');
  expect(flushedWith('EIO')).toBe('EIO');
});
