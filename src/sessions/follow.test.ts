import { describe, expect, it } from 'bun:test';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { within } from '../../test/support/within.ts';
import { endOfLines, FolderWatch, linesFrom } from './follow.ts';

describe('a file that grows line by line', () => {
  it('gives its whole lines from an offset on, each with the offset of the next', () => {
    const path = `${temporaryHome()}/record`;
    writeFileSync(path, 'one\nzwölf\n\nhal');
    expect([...linesFrom(path, 0)]).toEqual([
      { text: 'one', from: 0, to: 4 },
      { text: 'zwölf', from: 4, to: 11 },
      { text: '', from: 11, to: 12 },
    ]);
    expect(endOfLines(path)).toBe(12);
    appendFileSync(path, 'f\n');
    expect([...linesFrom(path, 12)]).toEqual([{ text: 'half', from: 12, to: 17 }]);
    expect([...linesFrom(path, 17)]).toEqual([]);
  });

  it('may have lines of megabytes', () => {
    const path = `${temporaryHome()}/record`;
    const long = 'ä'.repeat(1_700_000);
    writeFileSync(path, `short\n${long}\n${'x'.repeat(2_000_000)}`);
    expect([...linesFrom(path, 0)].map(({ text }) => text === long)).toEqual([false, true]);
    expect(endOfLines(path)).toBe(6 + 3_400_001);
  });

  it('has no lines if it does not exist, or is shorter than the offset', () => {
    const path = `${temporaryHome()}/record`;
    expect([...linesFrom(path, 0)]).toEqual([]);
    expect(endOfLines(path)).toBe(0);
    writeFileSync(path, 'one\n');
    expect([...linesFrom(path, 100)]).toEqual([]);
  });
});

describe('folders that are watched', () => {
  it('call back for each change, even if they are created later, and never after the watch is closed', async () => {
    const folder = `${temporaryHome()}/later`;
    let calls = 0;
    const watch = new FolderWatch(() => (calls += 1));
    watch.set([folder]);
    mkdirSync(folder);
    watch.set([folder]);
    writeFileSync(`${folder}/a`, '1');
    await within(20_000, async () => calls > 0);
    watch.close();
    const before = calls;
    writeFileSync(`${folder}/a`, '2');
    await Bun.sleep(50);
    expect(calls).toBe(before);
  });
});
