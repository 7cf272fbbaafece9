import { expect, it } from 'bun:test';
import { once, openLibc } from './libc.ts';

it('a call that the C library lacks is an error: no file of that name is loaded, not even from the current folder', () => {
  const lacking = { no_such_call: { args: [], returns: 'void' } } as const;
  expect(() => openLibc(lacking)).toThrow(/"no_such_call" not found in "(libc\.so\.6|libSystem\.dylib)"/);
});

it('`once` makes its value at the first call, and returns the same value from then on', () => {
  let made = 0;
  const one = once(() => ({ number: (made += 1) }));
  expect(made).toBe(0);
  expect(one()).toBe(one());
  expect(made).toBe(1);
});
