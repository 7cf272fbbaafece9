import { expect, it } from 'bun:test';
import { explained } from '../../storage/disk.ts';
import { notYet } from '../../storage/spool/in-tray-enter.ts';
import { hostTrouble } from './phrases.ts';

it('who waits for the word of a ledger that is in trouble hears that the message is safe, not that nothing was changed', () => {
  const full = Object.assign(new Error('no space'), { code: 'ENOSPC' });
  const told = hostTrouble(notYet(explained(full, '/home/of/the/relay', 'nothing was changed')))?.message ?? '';
  expect(told).toContain('it is written down and will be stored later');
  expect(told).not.toContain('nothing was changed');
  expect(told).not.toContain('/home/of/the/relay');
});
