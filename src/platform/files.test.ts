import { describe, expect, it } from 'bun:test';
import { appendFileSync, lstatSync, readFileSync, renameSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { replaceFile, stampOf } from './files.ts';

/** A folder with two files, a link to one of them, and a link to nothing. */
function place(): string {
  const root = temporaryHome();
  writeFileSync(`${root}/file`, 'hello\n');
  writeFileSync(`${root}/empty`, '');
  symlinkSync('file', `${root}/link`);
  symlinkSync('nowhere', `${root}/dangling`);
  return root;
}

describe('a file that is replaced', () => {
  it('is readable by this user only, and a link in its place or in its draft’s place is not followed', () => {
    const root = place();
    symlinkSync('file', `${root}/link.${process.pid}.tmp`);
    replaceFile(`${root}/link`, 'secret');
    const found = lstatSync(`${root}/link`);
    expect([found.isFile(), found.mode & 0o777]).toEqual([true, 0o600]);
    expect([readFileSync(`${root}/link`, 'utf8'), readFileSync(`${root}/file`, 'utf8')]).toEqual(['secret', 'hello\n']);
  });
});

describe('the stamp of a file', () => {
  it('stays the same while the file does, and is empty if there is no file', () => {
    const root = place();
    expect(stampOf(`${root}/file`)).toBe(stampOf(`${root}/file`));
    expect(stampOf(`${root}/nothing`)).toBe('');
    expect(stampOf(`${root}/dangling`)).not.toBe('');
    expect(stampOf(`${root}/dangling`, true)).toBe('');
    expect(stampOf(`${root}/link`, true)).toBe(stampOf(`${root}/file`));
  });

  it('changes when the length or the time changes, and when another file replaces it', () => {
    const root = place();
    const stamps = [stampOf(`${root}/file`)];
    const changes = [
      () => appendFileSync(`${root}/file`, 'x'),
      () => utimesSync(`${root}/file`, 1, 1),
      () => utimesSync(`${root}/file`, 1, 1.001),
      () => renameSync(`${root}/empty`, `${root}/file`),
    ];
    for (const change of changes) {
      change();
      stamps.push(stampOf(`${root}/file`));
    }
    expect(new Set(stamps).size).toBe(stamps.length);
  });
});

const STRACE = Bun.which('strace');

/** Flushes a file in a program whose first fsync fails with this error, and returns its output. */
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
