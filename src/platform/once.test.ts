import { expect, it } from 'bun:test';
import { once } from './libc.ts';

it('what is made once is made when it is first asked for, and is the same from then on', () => {
  let made = 0;
  const one = once(() => ({ number: (made += 1) }));
  expect(made).toBe(0);
  expect(one()).toBe(one());
  expect(made).toBe(1);
});
