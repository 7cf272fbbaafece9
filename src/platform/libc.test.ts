import { expect, it } from 'bun:test';
import { openLibc } from './libc.ts';
import { system } from './system.ts';

it('a call that the C library lacks is an error: no file of that name is looked for, in the current folder least of all', () => {
  const lacking = { no_such_call: { args: [], returns: 'void' } } as const;
  expect(() => openLibc(lacking)).toThrow(`"no_such_call" not found in "${system.libc}"`);
});
