import { describe, expect, it } from 'bun:test';
import { pixelsOf } from '../../../test/support/png.ts';
import { pngInBackground } from './background.ts';
import { gridOf } from './grid.ts';
import { pngOf } from './png.ts';

describe('a screen as a PNG', () => {
  it('has its size and its colours, twice as fine', async () => {
    const { width, height, at } = pixelsOf(
      await pngOf(await gridOf('\x1b[41m  \x1b[0m█a\n\x1b[48;2;0;80;160m漢\x1b[0m')),
    );
    expect([width, height]).toEqual([2 * (4 * 9 + 18), 2 * (2 * 18 + 18)]);
    expect([at(2, 2), at(20, 20), at(90, 60), at(63, 36)]).toEqual(['#1e1e1e', '#cd3131', '#1e1e1e', '#d4d4d4']);
    expect(at(20, 56)).toBe('#0050a0');
  });

  it.each(['a', '漢', 'é', '✅', '🚀', '╭', '⏺', '⎿', '한'])(
    'draws %s without any font of the machine',
    async (character) => {
      const [one, unknown] = [await pngOf(await gridOf(`${character} `)), await pngOf(await gridOf('\u{10fffd} '))];
      const inks = (png: Uint8Array): string => {
        const { width, height, at } = pixelsOf(png);
        let ink = '';
        for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) ink += at(x, y) === '#1e1e1e' ? ' ' : '#';
        return ink;
      };
      expect(inks(one)).toContain('#');
      expect(inks(one)).not.toBe(inks(unknown));
    },
  );

  it('is made by another thread as well', async () => {
    expect(await pngInBackground('hello')).toEqual(await pngOf(await gridOf('hello')));
  });
});
