import { timingSafeEqual } from 'node:crypto';
import { hashOf } from '../protocol/tokens.ts';

/** True if this is the token with that hash. */
export function isToken(token: string, hash: string): boolean {
  return sameHash(hashOf(token), hash);
}

/** Compares two hashes in a time that tells nothing about how much of them is the same. An empty one is nobody's. */
export function sameHash(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length > 0 && left.length === right.length && timingSafeEqual(left, right);
}
