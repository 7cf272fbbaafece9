import { describe, expect, it } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { statefilePath } from './statefile.ts';
import { OpenCodeStateReader } from './state.ts';

const AT = '2026-04-21T14:05:00.000Z';
const now = (): number => Date.parse(AT) + 10_000;
const idle = {
  c2c_session_id: 'opencode-project',
  c2c_alias: null,
  root_opencode_session_id: 'ses_1',
  opencode_pid: process.pid,
  plugin_started_at: AT,
  state_last_updated_at: AT,
  agent: {
    is_idle: true as boolean | null,
    turn_count: 1,
    step_count: 2,
    last_step: null,
    provider_id: null,
    model_id: null,
  },
  tui_focus: { ty: 'prompt', details: null },
  prompt: { has_text: null as boolean | null },
  pendingQuestion: null as object | null,
};
const agent = (is_idle: boolean | null) => ({ ...idle.agent, is_idle });
const front = (ty: string) => ({ ty, details: null });
const question = { id: 'que_1', text: 'Which?', header: 'W', options: ['a'] };

function readerOf(
  text: string,
  options: Partial<ConstructorParameters<typeof OpenCodeStateReader>[0]> = {},
): OpenCodeStateReader {
  const path = `${temporaryHome()}/state.json`;
  writeFileSync(path, text);
  return new OpenCodeStateReader({ path, sessionId: 'opencode-project', now, ...options });
}
const latest = (state: object, options = {}) =>
  readerOf(JSON.stringify({ event: 'state.snapshot', ts: AT, state }), options).latest();

describe('the states of an OpenCode', () => {
  it.each([
    ['idle', 'an idle root session with the prompt in front', idle],
    ['busy', 'a root session that works', { ...idle, agent: agent(false) }],
    ['unknown', 'a session that never was idle yet', { ...idle, agent: agent(null) }],
    ['dialog', 'an open permission', { ...idle, agent: agent(false), tui_focus: front('permission') }],
    ['dialog', 'an open permission, even if it claims to be idle', { ...idle, tui_focus: front('permission') }],
    ['dialog', 'an open question', { ...idle, tui_focus: front('question') }],
    ['dialog', 'a pending question, whatever is in front', { ...idle, pendingQuestion: question }],
    ['dialog', 'an open menu', { ...idle, tui_focus: front('menu') }],
    ['unknown', 'nobody knows what in front', { ...idle, tui_focus: front('unknown') }],
    ['unknown', 'a half-written prompt', { ...idle, prompt: { has_text: true } }],
  ])('say %s of %s', async (state, _what, said) => {
    expect(await latest(said)).toMatchObject({ state, at: Date.parse(AT), source: 'event', pid: process.pid });
  });

  it('are unknown when the plugin has been silent for too long', async () => {
    expect(await latest(idle, { now: () => Date.parse(AT) + 60_000 })).toMatchObject({ state: 'unknown' });
  });

  it('are none if the process has ended, the session is another one, or there is no state', async () => {
    expect(await latest(idle, { isRunning: () => false })).toBeNull();
    expect(await latest({ ...idle, c2c_session_id: 'another' })).toBeNull();
    expect(await latest({ ...idle, opencode_pid: 0 })).toBeNull();
    expect(await readerOf('{"event":"state.snapshot","state":{').latest()).toBeNull();
    expect(await readerOf('{"state":{"c2c_session_id":"opencode-project"}}').latest()).toBeNull();
    const nowhere = statefilePath({ HOME: temporaryHome() }, 'nobody');
    expect(await new OpenCodeStateReader({ path: nowhere, sessionId: 'opencode-project' }).latest()).toBeNull();
  });
});
