import { describe, expect, it } from 'bun:test';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { within } from '../../../test/support/within.ts';
import type { ClientProcess } from '../../sessions/client-window.ts';
import { HeldKimi } from './held.ts';

const DEADLINE = 20_000;

describe('the conversation of a Kimi in a terminal that we hold', () => {
  it('is the one that began in its folder since Kimi started, until a second one begins there', () => {
    const { kimi, begins } = aKimi();
    begins('session_0', 1000);
    expect(kimi.session).toBeNull();
    begins('session_1', 3000);
    expect(kimi.session).toBe('session_1');
    begins('session_2', 4000);
    expect(kimi.session).toBeNull();
  });

  it('is not guessed while another Kimi runs in its folder', async () => {
    const { kimi, begins, windows } = aKimi();
    windows.push({ pid: 2, tty: '/dev/pts/9', folder: '/work', words: ['kimi-code'] });
    begins('session_1', 3000);
    expect(kimi.session).toBeNull();
    windows.pop();
    await within(DEADLINE, async () => kimi.session === 'session_1');
  });
});

/** A Kimi in /work: process 1, started at 2000. `windows` are all windows of Kimi; a test may add others. */
function aKimi() {
  const home = temporaryHome();
  const windows: ClientProcess[] = [{ pid: 1, tty: '/dev/pts/8', folder: '/work', words: ['kimi-code'] }];
  const place = { pid: 1, startedAt: 2000, folder: '/work', args: [], env: { HOME: home } };
  const begins = (session: string, at: number): void => {
    const dir = `${home}/.kimi-code/sessions/${session}`;
    mkdirSync(`${dir}/agents/main`, { recursive: true });
    const entry = { sessionId: session, sessionDir: dir, workDir: '/work' };
    appendFileSync(`${home}/.kimi-code/session_index.jsonl`, `${JSON.stringify(entry)}\n`);
    writeFileSync(`${dir}/agents/main/wire.jsonl`, `${JSON.stringify({ type: 'metadata', created_at: at })}\n`);
  };
  return { kimi: new HeldKimi(place, () => windows), begins, windows };
}
