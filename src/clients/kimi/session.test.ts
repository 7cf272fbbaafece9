import { afterEach, describe, expect, it } from 'bun:test';
import { appendFileSync, mkdirSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { within } from '../../../test/support/within.ts';
import type { SessionTarget } from '../../core/ports/session.ts';
import { TmuxServer } from '../../sessions/tmux.ts';
import { KimiSession } from './session.ts';

const hasTmux = Bun.which('tmux') !== null;
const DEADLINE = 20_000;
const NEVER = new AbortController().signal;
/** A Kimi that is ready, and has a draft of its user: nothing is typed into it. */
const SCREEN = ['╭──────────╮', '│ > mine   │', '╰──────────╯', 'context: 0%'].join('\\n');
const KIMI = ['sh', '-c', `printf '${SCREEN}'; exec sleep 600`];

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

describe.skipIf(!hasTmux)(`a session of Kimi in tmux${hasTmux ? '' : ' (skipped: tmux is not here)'}`, () => {
  it('does not take a conversation of another session that has the same prompt', async () => {
    const { say, session } = aMachine();
    const one = await session('one', null);
    say('session_two', 'hello');
    await session('two', 'session_two');
    say('session_two', 'continue');
    expect(await one.submit({ key: 'k', text: 'continue', isRetry: true }, NEVER)).toMatchObject({ outcome: 'left' });
    expect(await one.state()).not.toHaveProperty('conversation');
  });

  it('finds a prompt that an earlier process tried first, in a conversation that no session has', async () => {
    const { say, session } = aMachine();
    const one = await session('one', null);
    say('session_new', 'continue');
    expect(await one.submit({ key: 'k', text: 'continue', isRetry: true }, NEVER)).toEqual({ outcome: 'submitted' });
    expect(await one.state()).toMatchObject({ conversation: 'session_new' });
  });

  it('counts a prompt as submitted only if it was recorded after its first try', async () => {
    const { say, session } = aMachine();
    say('session_one', 'hello');
    const one = await session('one', 'session_one');
    const prompt = { key: 'k', text: 'continue' };
    say('session_one', 'continue');
    expect(await one.submit({ ...prompt, isRetry: true }, NEVER)).toMatchObject({ outcome: 'left' });
    expect(await one.submit(prompt, NEVER)).toMatchObject({ outcome: 'left' });
    expect(await one.submit({ ...prompt, isRetry: true }, NEVER)).toMatchObject({ outcome: 'left' });
    say('session_one', 'continue');
    expect(await one.submit({ ...prompt, isRetry: true }, NEVER)).toEqual({ outcome: 'submitted' });
  });

  it('keeps its conversation when a person types the same prompt in another one of the folder', async () => {
    const { say, session } = aMachine();
    say('session_older', 'hello');
    say('session_one', 'hello');
    const one = await session('one', 'session_one');
    const prompt = { key: 'k', text: 'continue' };
    expect(await one.submit(prompt, NEVER)).toMatchObject({ outcome: 'left' });
    say('session_older', 'continue');
    expect(await one.submit({ ...prompt, isRetry: true }, NEVER)).toMatchObject({ outcome: 'left' });
    say('session_one', 'continue');
    expect(await one.submit({ ...prompt, isRetry: true }, NEVER)).toEqual({ outcome: 'submitted' });
    expect(await one.state()).toMatchObject({ conversation: 'session_one' });
  });

  it('follows its user to another conversation, if no other Kimi runs in the folder', async () => {
    const { say, session } = aMachine();
    say('session_one', 'hello');
    const one = await session('one', 'session_one', false);
    const prompt = { key: 'k', text: 'continue' };
    expect(await one.submit(prompt, NEVER)).toMatchObject({ outcome: 'left' });
    say('session_new', 'continue');
    expect(await one.submit({ ...prompt, isRetry: true }, NEVER)).toEqual({ outcome: 'submitted' });
    expect(await one.state()).toMatchObject({ conversation: 'session_new' });
  });
});

/** A machine with sessions in one folder. `say` records a finished turn. */
function aMachine() {
  const home = temporaryHome();
  const env = { HOME: home, TMUX_TMPDIR: home, PATH: process.env['PATH'] ?? '', TERM: 'xterm', LC_ALL: 'C.UTF-8' };
  const folder = `${home}/project`;
  mkdirSync(folder);
  const tmux = new TmuxServer({ env });
  ends.push(() => tmux.run(['kill-server']).catch(() => 'it never ran'));
  const known = new Set<string>();
  const say = (sessionId: string, text: string): void => {
    const sessionDir = `${home}/.kimi-code/sessions/${sessionId}`;
    mkdirSync(`${sessionDir}/agents/main`, { recursive: true });
    const write = (file: string, ...lines: object[]): void =>
      appendFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const wire = `${sessionDir}/agents/main/wire.jsonl`;
    const time = Date.now();
    if (!known.has(sessionId)) {
      write(`${home}/.kimi-code/session_index.jsonl`, { sessionId, sessionDir, workDir: folder });
      write(wire, { type: 'metadata', created_at: time });
    }
    known.add(sessionId);
    const input = [{ type: 'text', text }];
    write(wire, { type: 'turn.prompt', input, origin: { kind: 'user' }, promptId: crypto.randomUUID(), time });
    write(wire, { type: 'turn.ended', reason: 'completed', time });
  };
  const session = async (name: string, conversation: string | null, sharesFolder = true): Promise<KimiSession> => {
    const how = { host: 'local', client: 'kimi', command: KIMI, startTimeoutMs: DEADLINE };
    const target: SessionTarget = { name, folder, conversation, sharesFolder, ...how };
    const driver = new KimiSession(target, env);
    ends.push(() => driver.close());
    await driver.start();
    await within(DEADLINE, async () => (await driver.state()).status === 'idle');
    if (conversation !== null) expect(await driver.state()).toMatchObject({ conversation });
    return driver;
  };
  return { say, session };
}
