import { describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { CODEX_EVENTS } from '../clients/codex/state.ts';
import { KIMI_EVENTS } from '../clients/kimi/state.ts';
import { HookStateFile, writeClientState, clientStatePath, clientStateScript } from './client-state.ts';

describe('the state in a file', () => {
  it('is the last one that the client reported', async () => {
    const file = `${temporaryHome()}/sign`;
    const signs = new HookStateFile(file);
    expect(await signs.latest()).toBeNull();
    await writeClientState(file, 'busy', Date.now());
    expect(await signs.latest()).toMatchObject({ state: 'busy', source: 'hook' });
    await writeClientState(file, 'idle', Date.now());
    expect(await signs.latest()).toMatchObject({ state: 'idle' });
  });

  it.each(['', 'idle', 'asleep 1700000000', 'idle soon', 'idle -5', '\0\0'])(
    'is none where it cannot be read: %j',
    async (text) => {
      const file = `${temporaryHome()}/sign`;
      writeFileSync(file, text);
      expect(await new HookStateFile(file).latest()).toBeNull();
    },
  );

  it('does not count if its process has ended', async () => {
    const file = `${temporaryHome()}/sign`;
    const child = Bun.spawn(['sleep', '60']);
    await writeClientState(file, 'idle', Date.now(), child.pid);
    expect(await new HookStateFile(file).latest()).toMatchObject({ state: 'idle', pid: child.pid });
    child.kill('SIGKILL');
    await child.exited;
    expect(await new HookStateFile(file).latest()).toBeNull();
  });

  it('does not count if a process with that pid started after it was written', async () => {
    const file = `${temporaryHome()}/sign`;
    const longAgo = Date.now() - 24 * 3600_000 * 365;
    await writeClientState(file, 'idle', longAgo, process.pid);
    utimesSync(file, longAgo / 1000, longAgo / 1000);
    expect(await new HookStateFile(file).latest()).toBeNull();
  });

  it('has the time that its text says, even in a newer copy of the file', async () => {
    const file = `${temporaryHome()}/sign`;
    writeFileSync(file, 'idle 1700000000\n');
    const sign = await new HookStateFile(file).latest();
    expect(sign?.at).toBeLessThan(1_700_000_010_000);
  });
});

describe.each([
  ['Codex', CODEX_EVENTS],
  ['Kimi', KIMI_EVENTS],
])('the hook that leaves signs of %s', (_client, events) => {
  it.each(Object.entries(events))('%s means %s', async (event, state) => {
    const { folder, runs } = aHook(events);
    await runs('UserPromptSubmit', { hook_event_name: 'UserPromptSubmit', session_id: 'abc-1' });
    expect(await runs(event, { session_id: 'abc-1', cwd: '/x' })).toEqual({ out: '', err: '', code: 0 });
    const sign = await new HookStateFile(clientStatePath(folder, 'abc-1')).latest();
    expect(sign?.state ?? 'gone').toBe(state);
  });

  it.each(['../../evil', '.hidden', 'a/b', '', 'a b', '$(touch x)'])(
    'leaves nothing for a session that is called %j',
    async (session) => {
      const { folder, runs } = aHook(events);
      expect(await runs('Stop', { session_id: session })).toEqual({ out: '', err: '', code: 0 });
      expect(existsSync(folder)).toBe(false);
    },
  );

  it('marks the recorded inbox of a session as a guess when the session starts again', async () => {
    const { sessions, runs } = aHook(events);
    mkdirSync(`${sessions}/abc-1`, { recursive: true });
    writeFileSync(`${sessions}/abc-1/look`, '1\n');
    await runs('UserPromptSubmit', { session_id: 'abc-1' });
    expect(readdirSync(`${sessions}/abc-1`)).toEqual(['look']);
    expect(await runs('SessionStart', { session_id: 'abc-1' })).toEqual({ out: '', err: '', code: 0 });
    await runs('SessionStart', { session_id: 'abc-2' });
    expect(readdirSync(sessions)).toEqual(['abc-1']);
    expect(readdirSync(`${sessions}/abc-1`)).toEqual(['guess']);
  });

  it('never fails, whatever its input is', async () => {
    const { runs, raw } = aHook(events);
    expect(await runs('Stop', {})).toEqual({ out: '', err: '', code: 0 });
    expect(await runs('NoSuchEvent', { session_id: 'a' })).toEqual({ out: '', err: '', code: 0 });
    expect(await raw('Stop', '\0\u0001{{{"session_id":')).toMatchObject({ code: 0 });
  });
});

function aHook(events: Parameters<typeof clientStateScript>[1]) {
  const home = temporaryHome();
  const folder = `${home}/it's signs`;
  const sessions = `${home}/it's sessions`;
  writeFileSync(`${home}/hook.sh`, clientStateScript(folder, events, sessions));
  const raw = async (event: string, input: string) => {
    const child = Bun.spawn(['sh', `${home}/hook.sh`, event], {
      stdin: new Blob([input]),
      stdout: 'pipe',
      stderr: 'pipe',
    });
    const [out, err, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    return { out, err, code };
  };
  return { folder, sessions, raw, runs: (event: string, input: unknown) => raw(event, JSON.stringify(input)) };
}
