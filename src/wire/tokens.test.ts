import { describe, expect, it } from 'bun:test';
import { hashOf, isToken, sameHash, newAgentToken, newRoomId, newRoomToken } from './tokens.ts';
import { RoomId } from '../core/names.ts';

describe('tokens', () => {
  it('are compared by their hashes, whole; an empty hash is like none', () => {
    expect(sameHash(hashOf('a'), hashOf('a'))).toBe(true);
    expect(sameHash(hashOf('a'), hashOf('b'))).toBe(false);
    expect(sameHash(hashOf('a'), hashOf('a').slice(0, 63))).toBe(false);
    expect(sameHash(hashOf('a'), hashOf('a').toUpperCase())).toBe(false);
    expect(sameHash('', '')).toBe(false);
    expect([isToken('a', hashOf('a')), isToken('a', hashOf('b')), isToken('', '')]).toEqual([true, false, false]);
  });

  it('are 32 random bytes in hex for an agent, and 24 in base64url for a room', () => {
    expect(newAgentToken()).toMatch(/^[0-9a-f]{64}$/);
    expect(Buffer.from(newRoomToken(), 'base64url')).toHaveLength(24);
    expect(new Set(Array.from({ length: 1000 }, newAgentToken)).size).toBe(1000);
  });

  it('have room ids of 6 bytes, and neither those nor the rooms’ tokens are an option on a command line', () => {
    for (let n = 0; n < 2000; n += 1) {
      expect(newRoomId()).toMatch(/^[A-Za-z0-9_][A-Za-z0-9_-]{7}$/);
      expect(newRoomToken()).toMatch(/^[A-Za-z0-9_][A-Za-z0-9_-]{31}$/);
    }
  });

  it('are kept as the SHA-256 of their UTF-8 text [BC-B5.21]', () => {
    expect(hashOf('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
    expect(hashOf('schlüssel')).toBe(new Bun.CryptoHasher('sha256').update(Buffer.from('schlüssel')).digest('hex'));
  });

  it.each(['', 'a/b', '..', 'a.b', 'a b', 'x'.repeat(65), 'ä', 'a\n'])('have no room %j', (text) => {
    expect(RoomId.safeParse(text).success).toBe(false);
  });

  it.each(['default', '-', '_', 'x'.repeat(64)])('may have a room %j', (text) => {
    expect(RoomId.safeParse(text).success).toBe(true);
  });
});
