import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { RoomId } from '../core/names.ts';

// Only for a relay and anyone who sets one up: node:crypto costs 3 ms to import, which a send must not pay.

/** What an agent shows to a relay, for as long as it lives. */
export function newAgentToken(): string {
  return randomBytes(32).toString('hex');
}

/** What admits new agents to a room. */
export function newRoomToken(): string {
  return randomWord(24);
}

export function newRoomId(): RoomId {
  return RoomId.parse(randomWord(6));
}

/** Never begins with a dash: on a command line that would be an option. */
function randomWord(bytes: number): string {
  const word = randomBytes(bytes).toString('base64url');
  return word.startsWith('-') ? randomWord(bytes) : word;
}

/** What is kept of a token. It has 24 or 32 random bytes: nothing to guess, so no salt and no slow hash. spec: relay#tokens */
export function hashOf(token: string): string {
  return createHash('sha256').update(token, 'utf8').digest('hex');
}

/** True if this is the token with that hash. */
export function isToken(token: string, hash: string): boolean {
  return sameHash(hashOf(token), hash);
}

/** Compares two hashes in a time that tells nothing about how much of them is the same. An empty one is nobody's. */
export function sameHash(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length > 0 && left.length === right.length && timingSafeEqual(left, right);
}
