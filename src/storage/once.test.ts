import { expect, it } from 'bun:test';
import { lazily, once } from './once.ts';

it('what is made once is made when it is first asked for, and is the same from then on', () => {
  let made = 0;
  const one = once(() => ({ number: (made += 1) }));
  expect(made).toBe(0);
  expect(one()).toBe(one());
  expect(made).toBe(1);
});

it('what could not be loaded is tried again by the next who asks, and loaded once by all who ask together', async () => {
  let tries = 0;
  const loaded = lazily(async () => {
    tries += 1;
    if (tries === 1) throw new Error('too many open files');
    return tries;
  });
  expect(tries).toBe(0);
  await expect(loaded()).rejects.toThrow('too many open files');
  expect(await Promise.all([loaded(), loaded()])).toEqual([2, 2]);
  expect(await loaded()).toBe(2);
});
