import { afterAll, describe, expect, it } from 'bun:test';
import { rmSync } from 'node:fs';
import { RemoteMachine } from '../support/remote.ts';
import type { Run } from '../support/program.ts';

const open: RemoteMachine[] = [];
afterAll(async () => {
  for (const one of open) await one.close();
});

/** What the hook's script does at one event of a session. */
async function hook(machine: RemoteMachine, event: string): Promise<Run> {
  const home = machine.program.home;
  const child = Bun.spawn(['sh', `${home}/.parley/hook`, 'claude'], {
    cwd: home,
    env: machine.program.env,
    stdin: new Blob([JSON.stringify({ session_id: 's-1', cwd: home, hook_event_name: event })]),
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return { out, err, code };
}

describe("a client's hook of an agent at a relay", () => {
  it('asks the relay every half minute and not oftener, and says what waits there for this context', async () => {
    const machine = await RemoteMachine.atOriginal('parley');
    open.push(machine);
    const { relay } = machine;
    expect(await hook(machine, 'SessionStart')).toEqual({ out: '', err: '', code: 0 });
    await machine.peer.send('@ann', 'are you there?');
    await machine.peer.send('@ann', 'not for here', { scope: 'org/other' });
    const asked = relay.requests.length;
    expect(await hook(machine, 'UserPromptSubmit')).toEqual({ out: '', err: '', code: 0 });
    expect(relay.requests).toHaveLength(asked);
    // Half a minute later.
    rmSync(`${machine.program.home}/.parley/sessions/s-1/look`);
    const { out, err } = await hook(machine, 'UserPromptSubmit');
    expect(out).toContain('are you there?');
    expect(out).not.toContain('not for here');
    expect(err).toBe('');
    expect(relay.inbox('ann').map(({ body }) => body)).toEqual(['not for here']);
    rmSync(`${machine.program.home}/.parley/sessions/s-1/look`, { force: true });
    expect((await hook(machine, 'Stop')).out).toBe('');
    expect((await hook(machine, 'UserPromptSubmit')).out).toBe('');
  });

  it('never fails because the relay is away, and says why on stderr', async () => {
    const machine = await RemoteMachine.atOriginal('parley');
    open.push(machine);
    await hook(machine, 'SessionStart');
    await machine.wire.down();
    rmSync(`${machine.program.home}/.parley/sessions/s-1/look`);
    const { out, err, code } = await hook(machine, 'UserPromptSubmit');
    expect([out, code]).toEqual(['', 0]);
    expect(err).toMatch(/^parley hook: the relay \S+ cannot be reached \(nothing listens there\)\n$/);
  });
});
