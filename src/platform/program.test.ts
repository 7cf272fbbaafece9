import { describe, expect, it } from 'bun:test';
import { renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { staleAdvice } from './program.ts';

/** A main file, and its change time. */
function aFile() {
  const main = `${temporaryHome()}/main.ts`;
  writeFileSync(main, '');
  return { main, at: statSync(main).ctimeMs };
}

describe('advice after an error of ours', () => {
  it('is null if the files are as they were at the start', () => {
    const { main, at } = aFile();
    expect(staleAdvice(main, at)).toBeNull();
    expect(staleAdvice()).toBeNull();
  });

  it('is null in the compiled program, which needs no files', () => {
    expect(staleAdvice('/$bunfs/root/main.ts', 0)).toBeNull();
  });

  it('is to start again if they were replaced, even by older ones', () => {
    const { main, at } = aFile();
    writeFileSync(`${main}.new`, '');
    utimesSync(`${main}.new`, 0, 0);
    renameSync(`${main}.new`, main);
    expect(staleAdvice(main, at - 1)).toContain('start it again');
  });

  it('is to start again if they are gone', () => {
    const { main, at } = aFile();
    rmSync(main);
    expect(staleAdvice(main, at)).toContain('start it again');
  });
});
