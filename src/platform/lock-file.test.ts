import { expect, it } from 'bun:test';
import { temporaryHome } from '../../test/support/home.ts';
import { holdLock } from './lock-file.ts';

it('a held lock file cannot be taken until it is released', () => {
  const path = `${temporaryHome()}/lock`;
  const lock = holdLock(path);
  expect(holdLock(path)).toBe(null);
  lock?.release();
  const next = holdLock(path);
  expect(next).not.toBe(null);
  next?.release();
});
