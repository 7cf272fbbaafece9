import { describe, expect, it } from 'bun:test';
import { cutTo, PIECE_LIMIT, piecesOf } from './pieces.ts';

describe('a long text', () => {
  it.each([
    ['9,000 emoji', '😀'.repeat(9000)],
    ['flags and families', '🇩🇪👨‍👩‍👧'.repeat(1000)],
    ['one character of many parts', `e${'\u0301'.repeat(5000)}`],
    ['plain text', 'word '.repeat(3000)],
  ])('is cut between characters: %s [CCC-193]', (_what, text) => {
    const pieces = piecesOf(text);
    expect(pieces.join('')).toBe(text);
    expect(pieces.length).toBeGreaterThan(1);
    for (const piece of pieces) {
      expect(piece.length).toBeLessThanOrEqual(PIECE_LIMIT);
      expect(piece.isWellFormed()).toBe(true);
    }
  });

  it('is one piece as long as it fits', () => {
    expect(piecesOf('a'.repeat(PIECE_LIMIT))).toHaveLength(1);
    expect(piecesOf('')).toEqual(['']);
  });

  it('is shortened with a sign', () => {
    expect(cutTo('abc', 3)).toBe('abc');
    expect(cutTo('😀😀😀', 5)).toBe('😀😀…');
  });
});
