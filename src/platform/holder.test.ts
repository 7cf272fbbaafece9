import { describe, expect, it } from 'bun:test';
import { isHolderAlive, isBearer, isDead, newHolder } from './holder.ts';
import { platform } from './os.ts';

/** The holder's name of this process, with some parts changed. */
function holder(change: { boot?: string; space?: string; pid?: number; start?: string }): string {
  const start = platform.processStart(process.pid) ?? '';
  const own = { boot: platform.bootId(), space: platform.processSpace(), pid: process.pid, start, ...change };
  return `${own.boot}.${own.space}.${own.pid}.${own.start}.unique`;
}

describe('a holder of copies', () => {
  it('has a unique name', () => {
    expect(newHolder(false)).not.toBe(newHolder(false));
    expect(newHolder(true)).not.toBe(newHolder(true));
  });

  it.each([
    ['this process', newHolder(false), false],
    ['a bearer, whatever happens', newHolder(true), false],
    ['a bearer whose process runs', newHolder('session-7', process.pid), false],
    ['a bearer whose process is no more', newHolder('session-7', 999_999_999), true],
    ['a process of an earlier start of the machine', holder({ boot: 'earlier' }), true],
    ['a process whose number another has now', holder({ start: '1' }), true],
    ['a process of another container, which cannot be seen from here', holder({ space: '1', pid: 999_999_999 }), false],
    ['a process that is no more', holder({ pid: 999_999_999 }), true],
    ['a name that makes no sense', 'nonsense', false],
  ])('counts as dead only if that is certain: %s', (_who, name, dead) => {
    expect(isDead(name)).toBe(dead);
  });

  it('of a bearer with a process is never proven alive, and stays a bearer', () => {
    const bearer = newHolder('session-7', process.pid);
    expect([isBearer(bearer), isHolderAlive(bearer), isHolderAlive(newHolder(false))]).toEqual([true, false, true]);
    expect(newHolder('session-7', process.pid)).toBe(bearer);
  });

  it('is dead as soon as its process was killed, even before its parent has waited for it [BC-6]', async () => {
    const child = Bun.spawn(['sleep', '60']);
    const start = platform.processStart(child.pid) ?? '';
    expect(isDead(holder({ pid: child.pid, start }))).toBe(false);
    child.kill('SIGKILL');
    await child.exited;
    expect(isDead(holder({ pid: child.pid, start }))).toBe(true);
  });
});
