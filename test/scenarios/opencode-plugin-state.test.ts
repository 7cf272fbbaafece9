import { afterEach, beforeEach, describe, expect, it, spyOn } from 'bun:test';
import { rmSync, writeFileSync } from 'node:fs';
import { OpenCodeState, patched } from '../../src/clients/opencode/statefile.ts';
import type { JsonObject } from '../../src/clients/opencode/statefile.ts';
import { PluginRun } from '../support/opencode-plugin.ts';
import type { Streamed } from '../support/opencode-plugin.ts';
import { within } from '../support/within.ts';

let run: PluginRun;
beforeEach(async () => {
  run = new PluginRun();
  await run.load();
  await run.streamed((last) => last.event === 'state.snapshot');
});
afterEach(() => run.close());

const ROOT = 'ses_root';
const CHILD = 'ses_child';
const permission = (sessionID: string, id = 'per_1') => ({
  id,
  sessionID,
  permission: 'bash',
  patterns: ['echo canary-pattern'],
  metadata: { command: 'echo canary-command' },
  always: ['echo *'],
  tool: { messageID: 'msg_1', callID: 'call_1' },
});
const oldPermission = (sessionID: string, id = 'per_1') => ({
  id,
  type: 'edit',
  title: 'Edit this file',
  pattern: 'canary-pattern',
  sessionID,
  messageID: 'msg_1',
  callID: 'call_1',
  metadata: { diff: 'canary-diff' },
  time: { created: 1 },
});
const question = (sessionID: string, id = 'que_1') => ({
  id,
  sessionID,
  questions: [
    {
      question: 'Which colour?',
      header: 'Colour',
      options: [{ label: 'Red', description: 'canary' }, { label: 'Blue' }],
    },
    { question: 'canary-second', header: 'canary', options: [] },
  ],
});

/** The state after everything that was streamed in the life of the last writer. */
function stateOf(stream: Streamed[]): JsonObject & { agent: JsonObject; tui_focus: JsonObject } {
  let state: JsonObject | undefined;
  for (const { event, state: whole, patch } of stream) {
    if (event === 'state.snapshot') state = whole;
    else if (state && patch) state = patched(state, patch);
  }
  return state as JsonObject & { agent: JsonObject; tui_focus: JsonObject };
}

/** Waits until the published state is so. */
async function until(isSo: (state: ReturnType<typeof stateOf>) => boolean): Promise<ReturnType<typeof stateOf>> {
  await run.streamed((_last, all) => isSo(stateOf(all)));
  return stateOf(run.stream());
}

describe('the state that the OpenCode plugin publishes', () => {
  it('begins with everything unknown, as its schema says [C2C-53]', () => {
    const [, first] = run.stream();
    expect(first?.state).toMatchObject({
      c2c_session_id: 'opencode-project',
      c2c_alias: 'ocean',
      root_opencode_session_id: null,
      opencode_pid: process.pid,
      agent: { is_idle: null, turn_count: 0, step_count: 0, last_step: null, provider_id: null, model_id: null },
      tui_focus: { ty: 'unknown', details: null },
      prompt: { has_text: null },
      pendingQuestion: null,
    });
  });

  it('follows its schema after every event, and a created session has the prompt in front [C2C-53]', async () => {
    await run.openCode.created(ROOT);
    const created = await until((state) => state['root_opencode_session_id'] === ROOT);
    expect(created.tui_focus).toEqual({ ty: 'prompt', details: null });
    expect(created['prompt']).toEqual({ has_text: null });
    // What was not seen yet is not known yet.
    expect(created.agent).toMatchObject({ is_idle: null, provider_id: null, model_id: null });
    expect(created['pendingQuestion']).toBeNull();
    await script();
    await until((state) => state.agent['turn_count'] === 2);
    const stream = run.stream();
    expect(stream.length).toBeGreaterThan(10);
    for (let n = 2; n <= stream.length; n += 1) {
      const parsed = OpenCodeState.safeParse(stateOf(stream.slice(0, n)));
      expect(parsed.success ? '' : `${parsed.path}: ${parsed.why}`).toBe('');
    }
  });

  it('counts idles as turns, and creation, idles and permission events as steps [C2C-54]', async () => {
    await run.openCode.created(ROOT);
    await script();
    const { agent } = await until((state) => state.agent['turn_count'] === 2);
    // created, 2 × idle, permission.asked, permission.updated
    expect(agent).toMatchObject({ turn_count: 2, step_count: 5 });
  });

  it('keeps the first root session, whatever other sessions do [C2C-55]', async () => {
    await run.openCode.created('ses_before', 'ses_parent');
    await run.openCode.created(ROOT);
    await run.openCode.created(CHILD, ROOT);
    await run.openCode.created('ses_other');
    await run.openCode.emit('permission.asked', permission(CHILD));
    await run.openCode.emit('permission.asked', permission('ses_other', 'per_2'));
    await run.openCode.emit('question.asked', question(CHILD));
    await run.openCode.emit('session.status', { sessionID: 'ses_other', status: { type: 'busy' } });
    await run.openCode.idle(CHILD);
    await run.openCode.idle('ses_other');
    const before = await until((state) => state.agent['step_count'] === 1);
    await run.openCode.idle(ROOT);
    const after = await until((state) => state.agent['step_count'] === 2);
    expect(before).toMatchObject({
      root_opencode_session_id: ROOT,
      agent: { is_idle: null, turn_count: 0 },
      tui_focus: { ty: 'prompt' },
      pendingQuestion: null,
    });
    expect(after).toMatchObject({
      root_opencode_session_id: ROOT,
      agent: { is_idle: true, turn_count: 1, step_count: 2 },
    });
  });

  it('keeps what the root session asks in front while others ask and are answered [C2C-55]', async () => {
    await run.openCode.created(ROOT);
    await run.openCode.emit('permission.asked', permission(ROOT));
    const asked = await until(({ agent }) => agent['step_count'] === 2);
    const before = run.stream().length;
    await run.openCode.emit('permission.asked', permission(CHILD, 'per_2'));
    await run.openCode.emit('permission.replied', { sessionID: CHILD, requestID: 'per_2', reply: 'once' });
    await run.openCode.emit('question.asked', question(CHILD));
    await run.openCode.emit('question.rejected', { sessionID: CHILD, requestID: 'que_1' });
    await run.openCode.idle(ROOT);
    await until(({ agent }) => agent['step_count'] === 3);
    // The next that it says is that the root is idle.
    const [next] = run.stream().slice(before);
    expect([asked.tui_focus['ty'], next?.patch ?? next?.state]).toMatchObject([
      'permission',
      { agent: { turn_count: 1 } },
    ]);
  });

  it('takes the first idle of a session without a parent for the root if it came late [C2C-55]', async () => {
    run.openCode.sessions.set(CHILD, { id: CHILD, parentID: ROOT });
    run.openCode.sessions.set(ROOT, { id: ROOT });
    await run.openCode.idle(CHILD);
    await run.openCode.idle('ses_nobody_knows');
    await run.openCode.idle(ROOT);
    await run.openCode.idle(CHILD);
    const state = await until(({ agent }) => agent['turn_count'] === 1);
    expect(state).toMatchObject({
      root_opencode_session_id: ROOT,
      agent: { is_idle: true, turn_count: 1, step_count: 1 },
    });
  });

  it.each([
    ['answered', 'question.replied', { sessionID: ROOT, requestID: 'que_1', answers: [['Blue']] }],
    ['rejected', 'question.rejected', { sessionID: ROOT, requestID: 'que_1' }],
    ['timed out or was taken back', 'session.idle', { sessionID: ROOT }],
  ])(
    'tells the first question of a set in a snapshot, and in another that it was %s [C2C-56]',
    async (_how, type, said) => {
      await run.openCode.created(ROOT);
      await run.openCode.emit('question.asked', question(ROOT));
      const asked = await run.streamed(
        (last) => last.event === 'state.snapshot' && last.state?.['pendingQuestion'] !== null,
      );
      expect(asked.state).toMatchObject({
        pendingQuestion: { id: 'que_1', text: 'Which colour?', header: 'Colour', options: ['Red', 'Blue'] },
        tui_focus: { ty: 'question' },
      });
      await run.openCode.emit(type, said);
      await until((state) => state['pendingQuestion'] === null);
      const closing = run.stream().findLast(({ event }) => event === 'state.snapshot');
      expect(closing?.state).toMatchObject({ pendingQuestion: null, tui_focus: { ty: 'prompt', details: null } });
      expect(run.stream().filter(({ event }) => event === 'state.snapshot')).toHaveLength(3);
    },
  );

  it('never has a word of prompts, answers, commands or raw events in it [C2C-57]', async () => {
    await run.openCode.created(ROOT);
    await run.openCode.emit('message.part.updated', {
      sessionID: ROOT,
      part: { type: 'text', text: 'canary-prompt', messageID: 'msg_1' },
    });
    await run.openCode.emit('tui.prompt.append', { text: 'canary-draft' });
    await run.openCode.emit('session.error', {
      sessionID: ROOT,
      error: { name: 'Error', data: { message: 'canary-error' } },
    });
    run.arrive({ content: 'canary-mail', message_id: 'm1' });
    await within(10_000, async () => run.openCode.prompts.length === 1);
    await script();
    await run.openCode.emit('question.asked', question(ROOT));
    await until((state) => state['pendingQuestion'] !== null);
    const text = JSON.stringify(run.stream());
    expect(text).toContain('per_1');
    expect(text).not.toContain('canary');
  });

  it.each([
    ['new', 'permission.asked', permission(ROOT), { id: 'per_1', title: 'bash', type: 'bash' }],
    ['old', 'permission.updated', oldPermission(ROOT), { id: 'per_1', title: 'Edit this file', type: 'edit' }],
  ])(
    'says of a permission exactly its id, title and type, as the %s OpenCode tells it [C2C-57b]',
    async (_age, type, said, details) => {
      await run.openCode.created(ROOT);
      const created = await until(({ agent }) => agent['step_count'] === 1);
      expect(created.agent['last_step']).toMatchObject({
        event_type: 'session.created',
        details: { session_id: ROOT },
      });
      await run.openCode.emit(type, said);
      const asked = await until(({ agent }) => agent['step_count'] === 2);
      expect(asked.tui_focus).toEqual({ ty: 'permission', details });
      expect(asked.agent).toMatchObject({ is_idle: false, last_step: { event_type: type, details } });
      await run.openCode.idle(ROOT);
      const idle = await until(({ agent }) => agent['step_count'] === 3);
      expect((idle.agent['last_step'] as JsonObject)['details']).toEqual({ session_id: ROOT });
      expect(idle.tui_focus).toEqual({ ty: 'prompt', details: null });
    },
  );

  it.each([
    ['new', { sessionID: ROOT, requestID: 'per_1', reply: 'once' }],
    ['old', { sessionID: ROOT, permissionID: 'per_1', response: 'once' }],
  ])(
    'has the prompt in front again when a permission was answered, as the %s OpenCode tells it',
    async (_age, said) => {
      await run.openCode.created(ROOT);
      await run.openCode.emit('permission.asked', permission(ROOT));
      await run.openCode.emit('permission.asked', permission(ROOT, 'per_2'));
      await run.openCode.emit('permission.replied', said);
      await until(({ tui_focus }) => (tui_focus['details'] as JsonObject | null)?.['id'] === 'per_2');
      await run.openCode.emit('permission.replied', { sessionID: ROOT, requestID: 'per_2', reply: 'reject' });
      await until(({ tui_focus }) => tui_focus['ty'] === 'prompt');
    },
  );

  it('says busy when the root session works, and which model it works with', async () => {
    await run.openCode.created(ROOT);
    await run.openCode.idle(ROOT);
    await run.openCode.emit('session.status', { sessionID: ROOT, status: { type: 'busy' } });
    const info = { id: 'msg_1', role: 'assistant', sessionID: ROOT, providerID: 'maker', modelID: 'large' };
    await run.openCode.emit('message.updated', { sessionID: ROOT, info });
    const { agent } = await until((state) => state.agent['model_id'] === 'large');
    expect(agent).toMatchObject({ is_idle: false, provider_id: 'maker', step_count: 2 });
  });

  it('goes on without its writer, which comes back with a new snapshot; mail and permissions do not wait for it [C2C-59]', async () => {
    await run.openCode.created(ROOT);
    for (let kill = 1; kill <= 5; kill += 1) {
      process.kill(run.child('stream-write-statefile'), 'SIGKILL');
      run.arrive({ content: `letter ${kill}`, message_id: `m${kill}` });
      await within(10_000, async () => run.openCode.prompts.length === kill);
      await run.openCode.emit('permission.asked', permission(ROOT, `per_${kill}`));
      await within(10_000, async () => run.openCode.toasts.length === kill);
      await run.openCode.emit('permission.replied', { sessionID: ROOT, requestID: `per_${kill}`, reply: 'once' });
      await within(10_000, async () => run.stream().filter(({ event }) => event === 'start').length === kill + 1);
      await until(({ agent }) => agent['step_count'] === kill + 1);
      // The first that a new writer hears is the whole state.
      const stream = run.stream();
      expect(stream[stream.findLastIndex(({ event }) => event === 'start') + 1]?.event).toBe('state.snapshot');
    }
  });

  it('gives its writer longer and longer pauses while it fails [C2C-59]', async () => {
    const pauses: number[] = [];
    const real = globalThis.setTimeout;
    const noting = spyOn(globalThis, 'setTimeout').mockImplementation(((act: () => void, ms = 0) => {
      pauses.push(ms);
      return real(act, ms);
    }) as typeof setTimeout);
    try {
      writeFileSync(`${run.fake}/broken`, '');
      process.kill(run.child('stream-write-statefile'), 'SIGKILL');
      await within(10_000, async () => run.called('stream-write-statefile').length >= 5);
    } finally {
      noting.mockRestore();
    }
    // 20 ms is what these tests begin with.
    expect([20, 40, 80, 160].map((ms) => pauses.includes(ms))).toEqual([true, true, true, true]);
  });

  it('goes on while the writer cannot be started at all, and tells its state when it can [C2C-59]', async () => {
    writeFileSync(`${run.fake}/broken`, '');
    process.kill(run.child('stream-write-statefile'), 'SIGKILL');
    await within(10_000, async () => run.called('stream-write-statefile').length >= 4);
    await run.openCode.created(ROOT);
    rmSync(`${run.fake}/broken`);
    const state = await until((one) => one['root_opencode_session_id'] === ROOT);
    expect(state.agent['step_count']).toBe(1);
  });
});

/** A turn with a permission in both shapes, and a second one. */
async function script(): Promise<void> {
  const { openCode } = run;
  await openCode.emit('session.status', { sessionID: ROOT, status: { type: 'busy' } });
  await openCode.emit('permission.asked', permission(ROOT));
  await openCode.emit('permission.replied', { sessionID: ROOT, requestID: 'per_1', reply: 'once' });
  await openCode.emit('permission.updated', permission(ROOT, 'per_2'));
  await openCode.emit('permission.replied', { sessionID: ROOT, permissionID: 'per_2', response: 'once' });
  await openCode.emit('question.asked', question(ROOT, 'que_0'));
  await openCode.emit('question.replied', { sessionID: ROOT, requestID: 'que_0', answers: [['Red']] });
  await openCode.idle(ROOT);
  await openCode.emit('session.status', { sessionID: ROOT, status: { type: 'busy' } });
  await openCode.idle(ROOT);
}
