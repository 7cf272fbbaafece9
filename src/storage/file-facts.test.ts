import { expect, it } from 'bun:test';
import { factsIn, stampIn } from './file-facts.ts';

/** What the system says of a file in so many words of four bytes; all others are zero. */
function toldBy(...words: [at: number, value: number][]): Uint8Array {
  const told = new Uint8Array(256);
  for (const [at, value] of words) new DataView(told.buffer).setUint32(at, value, true);
  return told;
}

it('a device has its number however large the two parts of it are, and the user is not the group', () => {
  const told = toldBy([20, 1000], [24, 1001], [136, 259], [140, 300]);
  expect(factsIn(told)).toMatchObject({ uid: 1000, dev: 44 + 259 * 2 ** 8 + 2 ** 20 });
});

it('the stamp changes with every bit of number, size and either time, and with nothing else', () => {
  const parts = { number: [32, 36], size: [40, 44], changed: [96, 100, 104], written: [112, 116, 120] };
  const plain = stampIn(toldBy());
  const stamps = Object.values(parts)
    .flat()
    .map((at) => stampIn(toldBy([at, 1])));
  expect(new Set([plain, ...stamps]).size).toBe(1 + stamps.length);
  const [high, higher] = [0, 1].map((n) => stampIn(toldBy([32, n], [36, 2 ** 31])));
  expect(high).not.toBe(higher);
  // When it was read, and when it was made.
  for (const at of [64, 80]) expect(stampIn(toldBy([at, 1]))).toBe(plain);
});
