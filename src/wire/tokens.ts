import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { RoomId } from '../core/names.ts';

// Import this only for relays: node:crypto costs 3 ms, which a send must not pay.

/** The permanent token of an agent at a relay. */
export function newAgentToken(): string {
  return randomBytes(32).toString('hex');
}

/** The token that admits new agents to a room. */
export function newRoomToken(): string {
  return randomWord(24);
}

export function newRoomId(): RoomId {
  return RoomId.parse(randomWord(6));
}

/** A random word that never begins with a dash: on a command line that would be an option. */
function randomWord(bytes: number): string {
  const word = randomBytes(bytes).toString('base64url');
  return word.startsWith('-') ? randomWord(bytes) : word;
}

/** The stored hash of a token. A token has 24 or 32 random bytes, so it needs no salt and no slow hash. spec: relay#tokens */
export function hashOf(token: string): string {
  return createHash('sha256').update(token, 'utf8').digest('hex');
}

/** True if this is the token with that hash. */
export function isToken(token: string, hash: string): boolean {
  return sameHash(hashOf(token), hash);
}

/** Compares two hashes in constant time. An empty hash equals none. */
export function sameHash(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length > 0 && left.length === right.length && timingSafeEqual(left, right);
}
