import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { openFolderTexts } from './folder-texts.ts';
import type { FolderTexts } from './folder-texts.ts';

describe('the texts of a folder', () => {
  let folder: string;
  let texts: FolderTexts;
  beforeEach(() => {
    folder = temporaryHome();
    texts = openFolderTexts(folder);
  });
  afterEach(() => texts.close());

  it('are those of the files that were asked for, however many and however much memory moves meanwhile', () => {
    const names = Array.from({ length: 2000 }, (_, n) => `${n}-${'x'.repeat(n % 100)}.json`);
    for (const name of names) writeFileSync(`${folder}/${name}`, `the text of ${name}`);
    for (const [at, name] of names.entries()) {
      expect(texts.read(name)).toBe(`the text of ${name}`);
      if (at % 200 === 0) Bun.gc(true);
    }
  });

  it.each([
    ['nothing at all', ''],
    ['words of every script, and what is no letter', 'ünï 漢字 🙂 \u2028 \uFEFF'],
    ['as much as fits', 'y'.repeat(64 * 1024 - 1)],
  ])('keep %s', (_what, text) => {
    writeFileSync(`${folder}/one`, 'something longer that was read before it');
    texts.read('one');
    writeFileSync(`${folder}/one`, text);
    expect(texts.read('one')).toBe(text);
  });

  it.each([
    ['a file that is gone', () => {}],
    ['a file longer than the buffer', (path: string) => writeFileSync(path, 'z'.repeat(64 * 1024 + 1))],
    ['a file exactly as long as the buffer', (path: string) => writeFileSync(path, 'z'.repeat(64 * 1024))],
    ['a link', (path: string) => symlinkSync('/etc/hostname', path)],
    ['a folder', (path: string) => mkdirSync(path)],
  ])('are left to the usual way for %s', (_what, make) => {
    make(`${folder}/odd`);
    expect(texts.read('odd')).toBeNull();
  });

  it.skipIf(!existsSync('/proc/self/fd'))('leave no file open, whatever stood there', () => {
    const open = (): number =>
      readdirSync('/proc/self/fd').filter((fd) => linkOf(`/proc/self/fd/${fd}`).startsWith(folder)).length;
    mkdirSync(`${folder}/odd`);
    writeFileSync(`${folder}/long`, 'z'.repeat(70_000));
    writeFileSync(`${folder}/short`, 'z');
    for (const name of ['odd', 'long', 'short', 'gone']) texts.read(name);
    expect(open()).toBe(1);
    texts.close();
    expect(open()).toBe(0);
    texts = openFolderTexts(folder);
  });
});

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}
