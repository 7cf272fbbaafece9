import { describe, expect, it } from 'bun:test';
import { hashOf, isToken, sameHash } from './tokens.ts';

describe('tokens', () => {
  it('are compared by their hashes, whole; an empty hash is like none', () => {
    expect(sameHash(hashOf('a'), hashOf('a'))).toBe(true);
    expect(sameHash(hashOf('a'), hashOf('b'))).toBe(false);
    expect(sameHash(hashOf('a'), hashOf('a').slice(0, 63))).toBe(false);
    expect(sameHash(hashOf('a'), hashOf('a').toUpperCase())).toBe(false);
    expect(sameHash('', '')).toBe(false);
    expect([isToken('a', hashOf('a')), isToken('a', hashOf('b')), isToken('', '')]).toEqual([true, false, false]);
  });
});
