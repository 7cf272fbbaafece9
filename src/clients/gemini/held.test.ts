import { describe, expect, it } from 'bun:test';
import { mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { within } from '../../../test/support/within.ts';
import type { ClientProcess } from '../../sessions/client-window.ts';
import { HeldGemini } from './held.ts';

const DEADLINE = 20_000;
const NAMED = '11111111-1111-4111-8111-111111111111';
const NEXT = '22222222-2222-4222-8222-222222222222';

describe('the conversation of a Gemini CLI in a terminal that we hold', () => {
  it('is the one that began last, as long as no other Gemini CLI runs in its folder', async () => {
    const { gemini, begins, windows } = aGemini(['--session-id', NAMED]);
    begins(NAMED, 3000);
    expect(gemini.session).toBe(NAMED);
    windows.push({ pid: 2, tty: '/dev/pts/9', folder: '/work', words: ['node', 'gemini'] });
    begins(NEXT, 4000);
    expect(gemini.session).toBe(NAMED);
    windows.pop();
    await within(DEADLINE, async () => gemini.session === NEXT);
  });

  it('is the only one written since the client started, if it was resumed without its id', () => {
    const { gemini, begins } = aGemini(['--resume', 'latest']);
    begins(NAMED, 1000, 1500);
    expect(gemini.session).toBeNull();
    begins(NEXT, 1200, 3000);
    expect(gemini.session).toBe(NEXT);
    begins(NAMED, 1000, 3000);
    expect(gemini.session).toBeNull();
  });

  it('is found without a scan of all processes at each drawing of the screen', () => {
    const { gemini, begins, scans } = aGemini(['--session-id', NAMED]);
    begins(NEXT, 4000);
    for (let drawn = 0; drawn < 100; drawn += 1) void gemini.session;
    expect(scans()).toBeLessThan(10);
  });
});

/** A Gemini CLI in /work: process 1, started at 2000. `windows` are all its windows; a test may add others. */
function aGemini(args: string[]) {
  const home = temporaryHome();
  const windows: ClientProcess[] = [{ pid: 1, tty: '/dev/pts/8', folder: '/work', words: ['node', 'gemini'] }];
  const project = `${home}/.gemini/tmp/work`;
  mkdirSync(`${project}/chats`, { recursive: true });
  writeFileSync(`${project}/.project_root`, '/work');
  const begins = (sessionId: string, at: number, writtenAt = at): void => {
    const head = { sessionId, startTime: new Date(at).toISOString() };
    const path = `${project}/chats/session-${at}-${sessionId.slice(0, 8)}.jsonl`;
    writeFileSync(path, `${JSON.stringify(head)}\n`);
    utimesSync(path, writtenAt / 1000, writtenAt / 1000);
  };
  let scans = 0;
  const scan = () => {
    scans += 1;
    return windows;
  };
  const place = { pid: 1, startedAt: 2000, folder: '/work', args, env: { HOME: home } };
  return { gemini: new HeldGemini(place, scan), begins, windows, scans: () => scans };
}
