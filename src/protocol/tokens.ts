import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { RoomId } from './names.ts';

// Only for a relay and whoever sets one up: node:crypto costs 3 ms to import, which a send must not pay.

/** What an agent shows to a relay, for as long as it lives. */
export function newAgentToken(): string {
  return randomBytes(32).toString('hex');
}

/** What admits new agents to a room. */
export function newRoomToken(): string {
  return randomBytes(24).toString('base64url');
}

/** Never begins with a dash: on a command line that would be an option. */
export function newRoomId(): RoomId {
  const id = randomBytes(6).toString('base64url');
  return id.startsWith('-') ? newRoomId() : RoomId.parse(id);
}

/** What is kept of a token. It has 24 or 32 random bytes: nothing to guess, so no salt and no slow hash. spec: relay#tokens */
export function hashOf(token: string): string {
  return createHash('sha256').update(token, 'utf8').digest('hex');
}

/** Whether two hashes are the same, in a time that tells nothing about how much of them is. An empty one is nobody's. */
export function sameHash(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length > 0 && left.length === right.length && timingSafeEqual(left, right);
}
