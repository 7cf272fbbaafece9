import { afterEach, describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import type { SessionTarget } from '../../core/ports/session.ts';
import { TmuxServer } from '../../sessions/tmux.ts';
import { OpenCodeSession } from './session.ts';

const hasTmux = Bun.which('tmux') !== null;
const DEADLINE = 20_000;
const NEVER = new AbortController().signal;
const CHILD = new URL('../../../test/support/opencode-tui.child.ts', import.meta.url).pathname;
const prompt = { key: 'k', text: 'hi' };

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

describe.skipIf(!hasTmux)(`a session of OpenCode in tmux${hasTmux ? '' : ' (skipped: tmux is not here)'}`, () => {
  it.each([
    ['when it is started again', 'start'],
    ['when it gets a prompt', 'submit'],
  ] as const)('begins the conversation that a failed start did not, %s', async (_when, by) => {
    const { asked, plan, session } = aMachine();
    plan({ create: 500 });
    const driver = session();
    await expect(driver.start()).rejects.toThrow('500');
    expect(await driver.state()).toMatchObject({ status: 'idle' });
    plan({});
    if (by === 'start') {
      expect(await driver.start()).toEqual({ started: 'resumed' });
      expect(await driver.state()).toMatchObject({ conversation: 'ses_1' });
    }
    expect(await driver.submit(prompt, NEVER)).toEqual({ outcome: 'submitted' });
    expect(await driver.state()).toMatchObject({ conversation: 'ses_1' });
    expect(asked('/session/ses_1/prompt_async')).toHaveLength(1);
    expect(asked('/tui/select-session')).toContainEqual({ sessionID: 'ses_1' });
  });

  it.each([
    ['it listens nowhere any more', { leaves: true }, { outcome: 'left', retry: true }],
    ['it does not take it', { prompt: 400 }, { outcome: 'left', retry: false }],
    ['it fails', { prompt: 500 }, { outcome: 'unknown' }],
  ])('says what became of a prompt: %s', async (_what, how, submission) => {
    const { plan, session } = aMachine();
    const driver = session();
    expect(await driver.start()).toEqual({ started: 'fresh' });
    plan(how);
    expect(await driver.submit(prompt, NEVER)).toMatchObject(submission);
  });

  it('gives a prompt as the same message at each try, and another prompt as another one', async () => {
    const { asked, plan, session } = aMachine();
    const driver = session();
    await driver.start();
    plan({ prompt: 500 });
    expect(await driver.submit(prompt, NEVER)).toMatchObject({ outcome: 'unknown' });
    plan({});
    // The time is a part of an id.
    await Bun.sleep(2);
    expect(await driver.submit({ ...prompt, isRetry: true }, NEVER)).toEqual({ outcome: 'submitted' });
    expect(await driver.submit({ ...prompt, key: 'another' }, NEVER)).toEqual({ outcome: 'submitted' });
    const [first, again, other] = asked('/session/ses_1/prompt_async').map(({ messageID }) => messageID);
    expect(again).toBe(String(first));
    expect(other).not.toBe(String(first));
  });
});

/** A machine with a scripted OpenCode, and the calls that it got. */
function aMachine() {
  const home = temporaryHome();
  const env = { HOME: home, TMUX_TMPDIR: home, PATH: process.env['PATH'] ?? '', TERM: 'xterm', LC_ALL: 'C.UTF-8' };
  const folder = `${home}/project`;
  mkdirSync(folder);
  const plan = (how: object): void => writeFileSync(`${home}/plan.json`, JSON.stringify(how));
  plan({});
  const tmux = new TmuxServer({ env });
  ends.push(() => tmux.run(['kill-server']).catch(() => 'it never ran'));
  const asked = (path: string): Record<string, unknown>[] => {
    const file = `${home}/asked.jsonl`;
    const lines = existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : [];
    const all = lines.map((line) => JSON.parse(line) as { path: string; body: Record<string, unknown> });
    return all.filter((one) => one.path === path).map(({ body }) => body);
  };
  const session = (): OpenCodeSession => {
    const how = { host: 'local', client: 'opencode', conversation: null, startTimeoutMs: DEADLINE };
    const target: SessionTarget = { name: 'one', folder, command: [process.execPath, CHILD, home], ...how };
    const driver = new OpenCodeSession(target, env);
    ends.push(() => driver.close());
    return driver;
  };
  return { asked, plan, session };
}
