import { describe, expect, it } from 'bun:test';
import { IdleTimes, waitMs } from './choose-session.ts';

const SENT = 1_000_000;
const api = { name: 'claude.api', folder: '/src/api' };
const web = { name: 'claude.web', folder: '/src/web' };
const sub = { name: 'claude.docs', folder: '/src/api/docs' };

function waits(
  session: typeof api,
  message: { from?: string; folder: string | null },
  after: number,
  all = [api, web],
) {
  return waitMs(session, { from: 'me', at: SENT, ...message }, all, SENT + after);
}

describe('mail for a shared mailbox', () => {
  it("wakes only a session of its sender's folder for five seconds, then any", () => {
    const message = { folder: '/src/api' };
    expect([waits(api, message, 0), waits(web, message, 0)]).toEqual([0, 5000]);
    expect([waits(api, message, 4999), waits(web, message, 4999)]).toEqual([0, 1]);
    expect(waits(web, message, 5000)).toBe(0);
  });

  it('wakes a session for a sender below its folder, and not for one above it', () => {
    expect([waits(api, { folder: '/src/api/docs' }, 0), waits(sub, { folder: '/src/api' }, 0, [api, sub])]).toEqual([
      0, 5000,
    ]);
  });

  it("waits for nobody where no session works in the sender's folder", () => {
    expect([waits(api, { folder: '/elsewhere' }, 0), waits(web, { folder: '/src/ap' }, 0)]).toEqual([0, 0]);
  });

  it('gives a sender that is no session a moment to say where it is', () => {
    expect([waits(api, { folder: null }, 0), waits(api, { folder: null }, 250)]).toEqual([250, 0]);
  });

  it('waits no longer where the clock was set back', () => {
    expect([waits(web, { folder: '/src/api' }, -86_400_000), waits(api, { folder: null }, -86_400_000)]).toEqual([
      5000, 250,
    ]);
  });

  it('is never for the session that sent it, nor does that one make the others wait', () => {
    const message = { from: 'claude.api', folder: '/src/api' };
    expect([waits(api, message, 10_000), waits(web, message, 0)]).toEqual([Infinity, 0]);
  });
});

it('a session is idle since the first look that found it so', () => {
  const idle = new IdleTimes();
  expect(idle.note({ id: 'a', status: 'idle' }, 1)).toBe(1);
  expect(idle.note({ id: 'a', status: 'idle' }, 2)).toBe(1);
  expect(idle.note({ id: 'a', status: 'active' }, 3)).toBe(null);
  expect(idle.note({ id: 'a', status: 'idle' }, 4)).toBe(4);
});
