import { Database } from 'bun:sqlite';
import { afterAll, describe, expect, it } from 'bun:test';
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { Attention } from '../../src/core/attention/attention.ts';
import type { MessageId } from '../../src/core/names.ts';
import { bodiesIn, contextIn, Hooks, SHELLS } from '../support/hooks.ts';
import type { Event } from '../support/hooks.ts';
import { bob, LOUD } from '../support/mail.ts';
import { Program } from '../support/program.ts';

const MAY: Attention = { ...LOUD, policy: 'may_respond' };
const REDELIVERED = 'redelivered: you may have seen it before';

const LONG = 'long '.repeat(2_400);

const prompt = (prompt_id: string): Partial<Event> => ({ hook_event_name: 'UserPromptSubmit', prompt_id });
const tool = (prompt_id: string): Partial<Event> => ({ hook_event_name: 'PostToolUse', prompt_id });
const stop = (prompt_id: string): Partial<Event> => ({ hook_event_name: 'Stop', prompt_id });
const start = (source: string): Partial<Event> => ({ hook_event_name: 'SessionStart', source, prompt_id: undefined });
const end = (prompt_id?: string): Partial<Event> => ({ hook_event_name: 'SessionEnd', prompt_id });

const bodies = (text: string): string[] => [...bodiesIn(text).values()];

async function atWork(): Promise<Hooks> {
  return new Hooks().with('bob', 'alice');
}

async function copyOf(hooks: Hooks, id: MessageId) {
  const copy = (await hooks.mail.journal.trace(id))?.copies[0];
  if (!copy) throw new Error('it has a copy');
  return copy;
}

const steps = async (hooks: Hooks, id: MessageId): Promise<string[]> =>
  (await copyOf(hooks, id)).receipts.map(({ step }) => step);

/** The transcript of Claude Code, with this text of the hook. */
function aTranscript(hooks: Hooks, text: string): { path: string; answer(): void; fail(): void } {
  const folder = `${hooks.user}/.claude/projects/p`;
  const path = `${folder}/s1.jsonl`;
  mkdirSync(folder, { recursive: true });
  const timestamp = new Date().toISOString();
  const add = (entry: object): void =>
    appendFileSync(path, `${JSON.stringify({ isSidechain: false, timestamp, ...entry })}\n`);
  add({ parentUuid: null, type: 'user', uuid: 'u1', promptId: 'p1', message: { role: 'user', content: 'work' } });
  const attachment = { type: 'hook_additional_context', content: [text], hookEvent: 'UserPromptSubmit' };
  add({ parentUuid: 'u1', type: 'attachment', uuid: 'x1', attachment });
  const answer = (): void => add({ parentUuid: 'x1', type: 'assistant', uuid: 'a1', requestRef: 'r1', message: {} });
  const fail = (): void =>
    add({ parentUuid: 'x1', type: 'assistant', uuid: 'a1', isApiErrorMessage: true, message: {} });
  return { path, answer, fail };
}

/** The registry of Claude Code: its session s1 works since this time. */
function worksSince(hooks: Hooks, statusUpdatedAt: number): void {
  const folder = `${hooks.user}/.claude/sessions`;
  mkdirSync(folder, { recursive: true });
  const session = { pid: process.pid, sessionId: 's1', cwd: '/', kind: 'interactive', status: 'busy', statusUpdatedAt };
  writeFileSync(`${folder}/${process.pid}.json`, JSON.stringify(session));
}

describe('a session that never asks its model anything', () => {
  it.each(['claude', 'codex', 'kimi', 'gemini'])('takes nothing in %s', async (client) => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    for (const source of ['startup', 'resume', 'clear', 'compact']) {
      expect(await hooks.said({ ...start(source), session_id: source }, client)).toBe('');
      expect(await hooks.said({ ...end(), session_id: source }, client)).toBe('');
    }
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'stored', attempt: 0, receipts: [] });
    expect(await hooks.mail.mailboxes.ids(bob, true)).toEqual([id]);
  });

  it('does not keep its mail from the next one, whose first prompt brings it once and unmarked', async () => {
    const hooks = await atWork();
    await hooks.send({ body: 'one' });
    await hooks.said({ ...start('startup'), session_id: 's1' });
    await hooks.said({ ...end(), session_id: 's1' });
    expect(await hooks.said({ ...start('startup'), session_id: 's2' })).toBe('');
    const text = await hooks.said({ ...prompt('p1'), session_id: 's2' });
    expect(bodies(text)).toEqual(['one']);
    expect(text).not.toContain(REDELIVERED);
  });
});

describe('what a hook has printed', () => {
  it('is offered, and settled by the next event that proves that the model was asked', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    expect(bodies(await hooks.said(prompt('p1')))).toEqual(['one']);
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'held', disposition: null });
    expect(await steps(hooks, id)).toEqual(['offered']);
    expect(await hooks.said(stop('p1'))).toBe('');
    const settledBy = { by: 'hook', client: 'claude', event: 'UserPromptSubmit', session: 's1', proof: 'Stop' };
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'settled', disposition: 'acknowledged', settledBy });
    expect(await steps(hooks, id)).toEqual(['offered']);
    const trace = (await new Program(hooks.user).run(['trace', id])).out;
    expect(trace).toMatch(/offered .*event UserPromptSubmit[^]*settled .*proof Stop/);
    expect(trace).not.toMatch(/shown {2}/);
    // The next prompt starts nothing.
    const { starts } = hooks;
    expect(await hooks.said(prompt('p2'))).toBe('');
    expect(hooks.starts).toBe(starts);
  });

  it('is not printed again at a prompt that the client joins to the one before, and is settled by their turn', async () => {
    const hooks = await atWork();
    worksSince(hooks, Date.now());
    const { id } = await hooks.send({ body: 'one' });
    expect(bodies(await hooks.said(prompt('p1')))).toEqual(['one']);
    await hooks.send({ body: 'two' });
    expect(bodies(await hooks.said(prompt('p2')))).toEqual(['two']);
    expect(await hooks.said(stop('p2'))).toBe('');
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'settled', attempt: 0 });
  });

  it('waits again at a prompt of a turn that begins after it was printed', async () => {
    const hooks = await atWork();
    worksSince(hooks, Date.now());
    await hooks.send({ body: 'one' });
    await hooks.said(prompt('p1'));
    worksSince(hooks, Date.now() + 1);
    expect(await hooks.said(prompt('p2'))).toContain(REDELIVERED);
  });

  it.each([
    ['an event that proves it as well', tool('p1')],
    ['a prompt that proves nothing', prompt('p2')],
  ])('is shown by the record of the client, found at %s', async (_what, next) => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    const record = aTranscript(hooks, await hooks.said(prompt('p1')));
    record.answer();
    expect(await hooks.said(next)).toBe('');
    expect(await steps(hooks, id)).toEqual(['offered', 'shown']);
    const evidence = { by: 'hook', session: 's1', record: record.path, entry: 'x1', request: 'r1' };
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'settled', attempt: 0, settledBy: evidence });
    expect((await new Program(hooks.user).run(['trace', id, '--verbose'])).out).toMatch(
      /shown .*s1\.jsonl, offset \d+/,
    );
    const { starts } = hooks;
    expect(await hooks.said(prompt('p3'))).toBe('');
    expect(hooks.starts).toBe(starts);
  });

  it('is shown by the record also if the client wrote that after the event that settled it', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    const record = aTranscript(hooks, await hooks.said(prompt('p1')));
    await hooks.said(tool('p1'));
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'settled', settledBy: { proof: 'PostToolUse' } });
    expect(await steps(hooks, id)).toEqual(['offered']);
    record.answer();
    expect(await hooks.said(stop('p1'))).toBe('');
    expect(await steps(hooks, id)).toEqual(['offered', 'shown']);
  });

  it('is not shown by a record that has no answer of the model', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    aTranscript(hooks, await hooks.said(prompt('p1')));
    expect(bodies(await hooks.said(prompt('p2')))).toEqual(['one']);
    expect(await steps(hooks, id)).toEqual(['offered', 'released', 'offered']);
  });

  it('is not printed again after a request that failed: the conversation has it, and the next request too', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    const record = aTranscript(hooks, await hooks.said(prompt('p1')));
    record.fail();
    await hooks.send({ body: 'two' });
    expect(bodies(await hooks.said(prompt('p2')))).toEqual(['two']);
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'held', attempt: 0 });
    expect(await hooks.said(stop('p2'))).toBe('');
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'settled', attempt: 0 });
  });

  it('says where it is until then', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    await hooks.said(prompt('p1'));
    const take = await new Program(hooks.user).run(['take', id.slice(0, 8)], { as: 'bob' });
    expect(take.err).toContain(`message ${id.slice(0, 8)} is offered to a session`);
    const trace = (await new Program(hooks.user).run(['trace', id])).out;
    expect(trace).toContain('offered to a session; the next event of that session settles it, or it waits again');
  });

  it('waits again if the next event proves nothing, and is shown once more, marked', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    await hooks.said(prompt('p1'));
    const text = await hooks.said(prompt('p2'));
    expect(bodies(text)).toEqual(['one']);
    expect(text).toContain(REDELIVERED);
    expect(await steps(hooks, id)).toEqual(['offered', 'released', 'offered']);
    expect(await hooks.said(tool('p2'))).toBe('');
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'settled', attempt: 1 });
  });

  it('waits again when the session ends, for the next one', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    await hooks.said({ ...prompt('p1'), session_id: 's1' });
    await hooks.said({ ...end('p1'), session_id: 's1' });
    expect(await hooks.mail.mailboxes.ids(bob, true)).toEqual([id]);
    const text = await hooks.said({ ...prompt('p9'), session_id: 's2' });
    expect(bodies(text)).toEqual(['one']);
    expect(text).toContain(REDELIVERED);
  });

  it('waits again at /clear, where the same process of Claude Code begins another session', async () => {
    const hooks = await atWork();
    await hooks.send({ body: 'one' });
    await hooks.said({ ...prompt('p1'), session_id: 's1' });
    expect(await hooks.said({ ...start('clear'), session_id: 's2' })).toBe('');
    const text = await hooks.said({ ...prompt('p2'), session_id: 's2' });
    expect(bodies(text)).toEqual(['one']);
    expect(text).toContain(REDELIVERED);
  });

  it('is not shown to another session, nor settled by it', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    await hooks.said({ ...prompt('p1'), session_id: 's1' }, 'codex');
    for (const event of [start('startup'), prompt('p9'), tool('p9'), stop('p9'), end('p9')]) {
      expect(await hooks.said({ ...event, session_id: 's2' }, 'codex')).toBe('');
    }
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'held' });
    await hooks.said({ ...stop('p1'), session_id: 's1' }, 'codex');
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'settled', attempt: 0 });
  });

  it('is not settled by a subagent, which may have been at work before', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    await hooks.said(prompt('p1'));
    for (let n = 0; n < 3; n += 1) expect(await hooks.said({ ...tool('p1'), agent_id: 'a4d2' })).toBe('');
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'held' });
  });

  it('is not settled by a second hook of the same prompt or tool call', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    await hooks.said(prompt('p1'));
    expect(await hooks.said(prompt('p1'))).toBe('');
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'held' });
    await hooks.said({ ...tool('p1'), tool_use_id: 't1' });
    const two = await hooks.send({ body: 'two' });
    expect(bodies(await hooks.said({ ...tool('p1'), tool_use_id: 't2' }))).toEqual(['two']);
    expect(await hooks.said({ ...tool('p1'), tool_use_id: 't2' })).toBe('');
    expect(await copyOf(hooks, two.id)).toMatchObject({ state: 'held' });
    await hooks.said({ ...tool('p1'), tool_use_id: 't3' });
    expect(await copyOf(hooks, two.id)).toMatchObject({ state: 'settled' });
  });

  it('is settled by the end of the turn that it prolonged', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    expect(bodies(await hooks.said(stop('p1')))).toEqual(['one']);
    expect(await hooks.said({ ...stop('p1'), stop_hook_active: true })).toBe('');
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'settled', attempt: 0 });
  });

  it('in Kimi is shown once: its end of a turn is prolonged once, without another hook', async () => {
    const hooks = await atWork();
    const one = await hooks.send({ body: 'one' });
    expect(bodies((await hooks.call({ hook_event_name: 'UserPromptSubmit' }, 'kimi')).out)).toEqual(['one']);
    const two = await hooks.send({ body: 'two' });
    expect(bodies((await hooks.call({ hook_event_name: 'Stop' }, 'kimi')).err)).toEqual(['two']);
    expect(await copyOf(hooks, one.id)).toMatchObject({ state: 'settled', attempt: 0 });
    expect(await hooks.call({ hook_event_name: 'UserPromptSubmit' }, 'kimi')).toEqual({ out: '', err: '', code: 0 });
    expect(await copyOf(hooks, two.id)).toMatchObject({ state: 'settled', attempt: 0 });
  });

  it('in Codex is told apart by its turns', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    const of = (hook_event_name: string, turn_id: string) => hooks.said({ hook_event_name, turn_id }, 'codex');
    expect(bodies(await of('UserPromptSubmit', 't1'))).toEqual(['one']);
    expect(await of('UserPromptSubmit', 't2')).toContain(REDELIVERED);
    expect(await of('PostToolUse', 't2')).toBe('');
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'settled', attempt: 1 });
  });

  it('and cannot be settled is named on stderr, and keeps no other mail from the session', async () => {
    const hooks = await atWork();
    await hooks.send({ body: 'one' });
    await hooks.said(prompt('p1'));
    const ledger = new Database(`${hooks.home}/ledger.db`);
    ledger.run(`CREATE TRIGGER full BEFORE UPDATE ON copies WHEN NEW.disposition IS NOT NULL
      BEGIN SELECT RAISE(ABORT, 'no room'); END`);
    ledger.close();
    await hooks.send({ body: 'two' });
    const run = await hooks.call(tool('p1'));
    expect(bodies(contextIn(run.out))).toEqual(['one', 'two']);
    expect(run).toMatchObject({ code: 0, err: expect.stringMatching(/^parley hook: .*no room.*\n$/) });
    expect(contextIn(run.out)).toContain(REDELIVERED);
  });

  it('is knocked for again too, if nothing proves that the model heard the knock', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'x', to: '#ops' }, 'bob', { ...MAY, injection: 'notify' });
    const knocks = [await hooks.said(prompt('p1')), await hooks.said(prompt('p2'))];
    for (const text of knocks) expect(text).toContain(`knock ${id.slice(0, 8)}`);
    expect(knocks.map((text) => text.includes(REDELIVERED))).toEqual([false, true]);
    expect(await hooks.said(tool('p2'))).toBe('');
    expect(await hooks.said(prompt('p3'))).toBe('');
  });
});

describe('a long message that a guard kept', () => {
  const KEPT: Attention = { ...LOUD, policy: 'must_not_respond', injection: 'digest', reason: 'loop' };

  it('is pointed at again at the next prompt if nothing proves that the model saw the pointer, and prolongs no turn', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: LONG }, 'bob', KEPT);
    expect(await hooks.said(prompt('p1'))).toContain(`long message ${id.slice(0, 8)}`);
    await hooks.said(start('resume'));
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'stored', attention: KEPT });
    for (const session_id of ['s1', 's2']) {
      for (const event of [tool('p1'), stop('p1')]) expect(await hooks.said({ ...event, session_id })).toBe('');
    }
    const again = await hooks.said(prompt('p2'));
    expect(again).toContain(`long message ${id.slice(0, 8)}`);
    expect(again).toContain(REDELIVERED);
    await hooks.said(stop('p2'));
    expect(await hooks.said(prompt('p3'))).toBe('');
  });
});

describe('an answer before the next event', () => {
  it.each([
    ['reply', (id: string) => ['reply', id, 'done'], 'responded'],
    ['ack', (id: string) => ['ack', id], 'acknowledged'],
    ['react', (id: string) => ['react', id, 'done'], 'responded'],
  ] as const)('by %s settles it, whatever the session does then', async (_name, words, disposition) => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    await hooks.said(prompt('p1'));
    const run = await new Program(hooks.user).run([...words(id)], { as: 'bob' });
    expect({ code: run.code, err: run.err }).toEqual({ code: 0, err: '' });
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'settled', disposition });
    expect(await hooks.said(prompt('p2'))).toBe('');
    expect(await hooks.said(stop('p2'))).toBe('');
  });
});

describe('a message that the model releases before the next event', () => {
  it.each([
    ['at once', []],
    ['for a while', ['--after', '1h']],
  ])('%s waits again, and is not settled by that event', async (_when, after) => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    await hooks.send({ body: 'two' });
    await hooks.said(prompt('p1'));
    const run = await new Program(hooks.user).run(['release', id, ...after], { as: 'bob' });
    expect({ code: run.code, err: run.err }).toEqual({ code: 0, err: '' });
    const text = await hooks.said(tool('p1'));
    expect(bodies(text)).toEqual(after.length === 0 ? ['one'] : []);
    if (after.length === 0) expect(text).toContain(REDELIVERED);
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'held', disposition: null, attempt: 1 });
    expect(await hooks.mail.journal.open(bob)).toHaveProperty('size', 1);
  });
});

describe('a client that dies', () => {
  const clients: { kill(signal: 'SIGKILL'): void; exited: Promise<number> }[] = [];
  afterAll(() => clients.forEach((client) => client.kill('SIGKILL')));

  /** A process that runs one hook, as a client does, and lives on. */
  async function aClient(hooks: Hooks, event: Partial<Event>) {
    const code = `
      const shell = ${JSON.stringify(hooks.shell)};
      const line = shell.map((word) => "'" + word + "'").join(' ') + " '${hooks.home}/hook' claude";
      const hook = Bun.spawn(['sh', '-c', line + '; exit $?'], { stdin: new Blob([process.argv.at(-1)]), stdout: 'pipe' });
      await Bun.write(Bun.stdout, JSON.stringify(await new Response(hook.stdout).text()) + '\\n');
      setInterval(() => {}, 1000);`;
    const client = Bun.spawn([process.execPath, '-e', code, '--', JSON.stringify(hooks.event(event))], {
      cwd: hooks.user,
      env: { PATH: process.env['PATH'] ?? '', HOME: hooks.user },
      stdout: 'pipe',
    });
    clients.push(client);
    let out = '';
    for await (const piece of client.stdout) {
      out += Buffer.from(piece).toString();
      if (out.endsWith('\n')) break;
    }
    return { client, text: contextIn(JSON.parse(out) as string) };
  }

  it('gives back what it was offered: the next session has it, marked', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    const { client, text } = await aClient(hooks, prompt('p1'));
    expect(bodies(text)).toEqual(['one']);
    expect(await hooks.said({ ...prompt('p1'), session_id: 's2' })).toBe('');
    client.kill('SIGKILL');
    await client.exited;
    await hooks.said({ ...start('startup'), session_id: 's3' });
    const again = await hooks.said({ ...prompt('p1'), session_id: 's3' });
    expect(bodies(again)).toEqual(['one']);
    expect(again).toContain(REDELIVERED);
    await hooks.said({ ...stop('p1'), session_id: 's3' });
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'settled', attempt: 1 });
  });

  it('and is resumed is shown it again, marked', async () => {
    const hooks = await atWork();
    await hooks.send({ body: 'one' });
    const { client } = await aClient(hooks, prompt('p1'));
    client.kill('SIGKILL');
    await client.exited;
    expect(await hooks.said(start('resume'))).toBe('');
    const again = await hooks.said(prompt('p2'));
    expect(bodies(again)).toEqual(['one']);
    expect(again).toContain(REDELIVERED);
  });
});

describe('a turn that is longer than the lease', () => {
  it('settles what waits again by then, and is not shown it twice', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    await hooks.said(prompt('p1'));
    const { owner } = await copyOf(hooks, id);
    await hooks.mail.mailboxes.renew({ mailbox: bob, owner: owner ?? '' }, { ms: -1 });
    expect(await hooks.said(tool('p1'))).toBe('');
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'settled', attempt: 1 });
  });

  it('leaves it to another session that took it meanwhile, marked', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'one' });
    await hooks.said({ ...prompt('p1'), session_id: 's1' });
    const { owner } = await copyOf(hooks, id);
    await hooks.mail.mailboxes.renew({ mailbox: bob, owner: owner ?? '' }, { ms: -1 });
    expect(await hooks.said({ ...prompt('p9'), session_id: 's2' })).toContain(REDELIVERED);
    expect(await hooks.said({ ...tool('p1'), session_id: 's1' })).toBe('');
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'held' });
    await hooks.said({ ...stop('p9'), session_id: 's2' });
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'settled', settledBy: { session: 's2' } });
  });
});

describe('after a compaction', () => {
  const COMPACTIONS: [how: string, events: Partial<Event>[]][] = [
    ['a session that starts again', [start('compact')]],
    ['PostCompact', [{ hook_event_name: 'PostCompact' }]],
    ['PreCompact and a start', [{ hook_event_name: 'PreCompact' }, start('compact')]],
  ];

  it.each(COMPACTIONS)('by %s: what is owed is shown again, once and marked', async (_how, events) => {
    const hooks = await atWork();
    const owed = await hooks.send({ body: 'owed' });
    await hooks.send({ body: 'only told' }, 'bob', MAY);
    expect(bodies(await hooks.said(prompt('p1')))).toEqual(['owed', 'only told']);
    await hooks.said(stop('p1'));
    for (const event of events) expect(await hooks.said(event)).toBe('');
    const text = await hooks.said(prompt('p2'));
    expect(bodies(text)).toEqual(['owed']);
    expect(text).toContain(REDELIVERED);
    for (const event of [tool('p2'), stop('p2'), prompt('p3'), tool('p3')]) expect(await hooks.said(event)).toBe('');
    expect(await copyOf(hooks, owed.id)).toMatchObject({ state: 'settled', attempt: 0 });
    expect((await copyOf(hooks, owed.id)).receipts.at(-1)).toMatchObject({
      step: 'offered',
      evidence: { because: 'still owed after a compaction' },
    });
    for (const event of events) await hooks.said(event);
    expect(bodies(await hooks.said(prompt('p4')))).toEqual(['owed']);
    const { starts } = hooks;
    await hooks.said(tool('p4'));
    expect(await hooks.said(tool('p4'))).toBe('');
    expect(hooks.starts).toBe(starts + 1);
  });

  it('in the middle of a turn it is shown after the next tool call, not at the end of the turn', async () => {
    const hooks = await atWork();
    await hooks.send({ body: 'owed' });
    await hooks.said(prompt('p1'));
    await hooks.said(start('compact'));
    expect(await hooks.said(stop('p1'))).toBe('');
    expect(bodies(await hooks.said(tool('p1')))).toEqual(['owed']);
  });

  it('it is shown again as long as nothing proves that the model was asked', async () => {
    const hooks = await atWork();
    await hooks.send({ body: 'owed' });
    await hooks.said(prompt('p1'));
    await hooks.said(start('compact'));
    expect(bodies(await hooks.said(prompt('p2')))).toEqual(['owed']);
    expect(bodies(await hooks.said(prompt('p3')))).toEqual(['owed']);
    await hooks.said(stop('p3'));
    expect(await hooks.said(prompt('p4'))).toBe('');
  });

  it('what was answered, and what another session was shown, is not', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: 'answered' });
    await hooks.said(prompt('p1'));
    await hooks.said(stop('p1'));
    await new Program(hooks.user).run(['reply', id, 'done'], { as: 'bob' });
    await hooks.send({ body: 'elsewhere' });
    await hooks.said({ ...prompt('q1'), session_id: 's2' });
    await hooks.said({ ...stop('q1'), session_id: 's2' });
    await hooks.said(start('compact'));
    expect(await hooks.said(prompt('p2'))).toBe('');
  });

  it('what another reader took is not shown', async () => {
    const hooks = await atWork();
    await hooks.send({ body: 'mine' });
    await hooks.said(prompt('p1'));
    await hooks.said(stop('p1'));
    await hooks.send({ body: 'drained elsewhere' });
    await new Program(hooks.user).run(['drain'], { as: 'bob' });
    await hooks.said(start('compact'));
    expect(bodies(await hooks.said(prompt('p2')))).toEqual(['mine']);
  });

  it('what was pointed at is pointed at again, once and marked', async () => {
    const hooks = await atWork();
    const { id } = await hooks.send({ body: LONG });
    const pointer = `long message ${id.slice(0, 8)}`;
    const first = await hooks.said(prompt('p1'));
    expect(first).toContain(pointer);
    expect(first).not.toContain(REDELIVERED);
    await hooks.said(stop('p1'));
    await hooks.said({ ...start('compact'), session_id: 's2' });
    expect(await hooks.said({ ...prompt('q1'), session_id: 's2' })).toBe('');
    await hooks.said(start('compact'));
    const again = await hooks.said(prompt('p2'));
    expect(again).toContain(pointer);
    expect(again).toContain(REDELIVERED);
    for (const event of [tool('p2'), stop('p2'), prompt('p3')]) expect(await hooks.said(event)).toBe('');
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'stored' });
    expect(await steps(hooks, id)).toEqual(['knocked', 'knocked']);
  });

  it('a session that owes nothing starts the program once', async () => {
    const hooks = await atWork();
    await hooks.said(prompt('p1'));
    await hooks.said(start('compact'));
    const { starts } = hooks;
    for (const event of [tool('p1'), tool('p1'), stop('p1'), prompt('p2')]) expect(await hooks.said(event)).toBe('');
    expect(hooks.starts).toBe(starts + 1);
  });

  it('more than fits into one text comes over several events', async () => {
    const hooks = await atWork();
    const all = Array.from({ length: 12 }, (_, n) => `${n} ${'x'.repeat(1000)}`);
    for (const body of all) await hooks.send({ body });
    const read: string[] = [];
    while (read.length < all.length) read.push(...bodies(await hooks.said(tool('p1'))));
    await hooks.said(stop('p1'));
    await hooks.said(start('compact'));
    const again: string[] = [];
    for (let n = 0; n < 4; n += 1) again.push(...bodies(await hooks.said(tool('p2'))));
    expect(again.toSorted()).toEqual(all.toSorted());
  });
});

describe('a script that an earlier version left', () => {
  it('is replaced when a session starts, and one of today is left alone', async () => {
    const program = await new Program().init('bob');
    const path = `${program.home}/.parley/hook`;
    const today = readFileSync(path, 'utf8');
    const event = JSON.stringify({ session_id: 's1', cwd: program.home, hook_event_name: 'SessionStart' });
    const older = today.replace(/^# version .*\n/m, '').replace(/any "\$d"\/open.*/, ':');
    expect(older).not.toContain('/open/');
    for (const [before, after] of [
      [older, today],
      [`${today}# mine\n`, `${today}# mine\n`],
    ] as const) {
      writeFileSync(path, before);
      await program.run(['hook', 'claude'], { stdin: event });
      expect(readFileSync(path, 'utf8')).toBe(after);
    }
  });
});

describe.each(SHELLS.map((shell) => [shell.join(' '), shell] as const))('under %s', (_name, shell) => {
  it('the event after mail starts the program once; nothing stays in the folder of the session', async () => {
    const hooks = await new Hooks(shell).with('bob', 'alice');
    await hooks.said(prompt('p1'));
    await hooks.send({ body: 'one' });
    await hooks.said(tool('p1'));
    const { starts } = hooks;
    for (let n = 0; n < 4; n += 1) expect(await hooks.said(tool('p1'))).toBe('');
    expect(hooks.starts).toBe(starts + 1);
    const open = `${hooks.home}/sessions/s1/open`;
    expect(existsSync(open) ? readdirSync(open) : []).toEqual([]);
  });

  it('a tool whose input has an agent_id proves as much as any other', async () => {
    const hooks = await new Hooks(shell).with('bob', 'alice');
    const { id } = await hooks.send({ body: 'one' });
    await hooks.said(prompt('p1'));
    await hooks.said({ ...tool('p1'), tool_input: { agent_id: 'a4d2' } });
    expect(await copyOf(hooks, id)).toMatchObject({ state: 'settled' });
  });

  it('needs no program for a subagent once nothing is offered to its agent', async () => {
    const hooks = await new Hooks(shell).with('bob', 'alice');
    await hooks.said({ ...tool('p1'), agent_id: 'a4d2' });
    await hooks.send({ body: 'one' });
    await hooks.said(prompt('p1'));
    await hooks.said({ ...tool('p1'), agent_id: 'a4d2' });
    await hooks.said(tool('p1'));
    const { starts } = hooks;
    for (let n = 0; n < 3; n += 1) await hooks.said({ ...tool('p1'), agent_id: 'a4d2' });
    expect(hooks.starts).toBe(starts);
  });
});
