import { describe, expect, it } from 'bun:test';
import fc from 'fast-check';
import { LineReader, textOf } from './lines.ts';

function readerTo(found: (string | null)[], limit: number): LineReader {
  return new LineReader(limit, {
    receive: (bytes) => found.push(textOf(bytes)),
    tooLong: () => found.push('too long'),
  });
}

describe('a line', () => {
  it('is the same, however its bytes are cut on the way', () => {
    const line = fc.string({ unit: 'grapheme' }).filter((text) => !/[\n\r]/.test(text) && text.trim() !== '');
    fc.assert(
      fc.property(fc.array(line), fc.array(fc.nat({ max: 7 })), (lines, cuts) => {
        const bytes = new TextEncoder().encode(lines.map((one) => `${one}\n`).join(''));
        const found: (string | null)[] = [];
        const reader = readerTo(found, 1000);
        for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
          const size = (cuts[turn % Math.max(1, cuts.length)] ?? 0) + 1;
          reader.push(bytes.subarray(at, at + size));
          at += size;
        }
        expect(found).toEqual(lines);
      }),
    );
  });

  it('is not kept if it is too long, and the line after it is read', () => {
    const found: (string | null)[] = [];
    const reader = readerTo(found, 8);
    for (const chunk of ['0123456', '789', ' and more', '\nnext\n', '\u00fc and']) reader.push(Buffer.from(chunk));
    expect(found).toEqual(['too long', 'next']);
    reader.end();
    expect(found).toEqual(['too long', 'next', 'ü and']);
  });

  it('is left out if it is blank, and is no text if it is not UTF-8', () => {
    const found: (string | null)[] = [];
    const reader = readerTo(found, 8);
    reader.push(Buffer.concat([Buffer.from(' \t\r\n\n'), Buffer.from([0x22, 0xff, 0x22, 0x0a])]));
    reader.end();
    expect(found).toEqual([null]);
  });
});
