import { afterEach, describe, expect, it } from 'bun:test';
import type { ControlCaller } from '../../../test/support/control-caller.ts';
import { ScriptedServer } from '../../../test/support/control-server.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { within } from '../../../test/support/within.ts';
import { hooksBeside } from '../../clients/claude/permission-hook.ts';
import { answerBeside } from './dialog-hook.ts';

const DEADLINE = 20_000;
const running: ScriptedServer[] = [];
afterEach(async () => {
  for (const server of running.splice(0)) await server.close();
});

describe('a hook beside a dialog', () => {
  it('prints the decision for its own dialog, when somebody made one [CCC-183]', async () => {
    const { server, waiting } = await aSession();
    const said = answerBeside({ HOME: server.home }, JSON.stringify(anEvent()));
    const hook = await waiting();
    expect(hook).toMatchObject({ tool: 'Bash', input: { command: 'touch made' } });
    hook?.decide({ behavior: 'allow' });
    expect(JSON.parse((await said) ?? '')).toEqual({
      hookSpecificOutput: { hookEventName: 'PermissionRequest', decision: { behavior: 'allow' } },
    });
    expect(hooksBeside(CONVERSATION)).toEqual([]);
  });

  it('says nothing and is over at once where no server runs, and fails only inside', async () => {
    await expect(answerBeside({ HOME: temporaryHome() }, JSON.stringify(anEvent()))).rejects.toThrow(
      'no control server',
    );
    await expect(answerBeside({ HOME: temporaryHome() }, 'no JSON')).rejects.toThrow();
  });

  it.each<[string, object]>([
    ['a session that control does not know', { session_id: 'another' }],
    ['another event', { hook_event_name: 'PreToolUse' }],
    ['an event without a tool', { tool_name: undefined }],
  ])('of %s is over at once', async (_what, fields) => {
    const { server } = await aSession();
    expect(await server.ask({ cmd: 'dialog', event: { ...anEvent(), ...fields } })).toEqual({ ok: true });
  });

  it.each<[string, (hooked: Hooked) => unknown]>([
    ['its dialog is closed', ({ server }) => server.control.becomes('api', { status: 'active' })],
    ['its session ends', ({ server }) => server.control.becomes('api', null)],
    ['the server stops', ({ server }) => server.server.close()],
    ['it is killed', ({ caller }) => caller.close()],
    ['a person has answered', ({ hook }) => hook?.end()],
  ])('waits no more when %s', async (_what, ends) => {
    const { server, waiting } = await aSession();
    const caller = await server.caller();
    caller.write(`${JSON.stringify({ cmd: 'dialog', event: anEvent() })}\n`);
    const hook = await waiting();
    await within(DEADLINE, async () => server.control.watchers > 0);
    await ends({ server, caller, hook });
    await within(DEADLINE, async () => hooksBeside(CONVERSATION).length === 0 && server.control.watchers === 0);
    if (!caller.socket.destroyed) expect(await caller.line()).toEqual({ ok: true });
  });
});

interface Hooked {
  server: ScriptedServer;
  caller: ControlCaller;
  hook: { end(): void } | undefined;
}

const CONVERSATION = '0c5b2a4e-0000-4000-8000-000000000001';

function anEvent() {
  const tool = { tool_name: 'Bash', tool_input: { command: 'touch made' } };
  return { hook_event_name: 'PermissionRequest', session_id: CONVERSATION, prompt_id: 'p', ...tool };
}

/** A server with a session that waits for its user. */
async function aSession() {
  const server = await ScriptedServer.start({ sessions: { api: { path: '/work/api' } } });
  running.push(server);
  server.control.becomes('api', { status: 'waiting', waitingFor: 'permission prompt', conversation: CONVERSATION });
  const waiting = async () => {
    await within(DEADLINE, async () => hooksBeside(CONVERSATION).length > 0);
    return hooksBeside(CONVERSATION)[0];
  };
  return { server, waiting };
}
