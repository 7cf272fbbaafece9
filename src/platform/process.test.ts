import { expect, it } from 'bun:test';
import { signalTo } from './process.ts';

it('a signal to a process that has just ended does nothing', async () => {
  const child = Bun.spawn(['sleep', '600']);
  signalTo(child.pid, 'SIGTERM');
  await child.exited;
  expect(child.signalCode).toBe('SIGTERM');
  expect(() => signalTo(child.pid, 'SIGTERM')).not.toThrow();
});
