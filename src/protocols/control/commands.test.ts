import { afterEach, describe, expect, it, setSystemTime } from 'bun:test';
import { mkdirSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { ScriptedServer } from '../../../test/support/control-server.ts';
import { aQuestion } from '../../../test/support/scripted-questions.ts';
import { within } from '../../../test/support/within.ts';
import { Refusal } from '../../core/refusal.ts';

const SESSIONS = {
  sessions: {
    web: { path: '/code/web', topic_id: 7 },
    api: { path: '/code/api' },
    old: { path: '/code/old', deleted: true },
    'msi:backend': { path: '/far/backend', host: 'msi' },
    'gone:x': { path: '/far/x', host: 'gone' },
  },
  hosts: { msi: { address: 'me@msi' } },
};

const running: ScriptedServer[] = [];
async function serve(...args: Parameters<typeof ScriptedServer.start>): Promise<ScriptedServer> {
  const server = await ScriptedServer.start(...args);
  running.push(server);
  return server;
}
afterEach(async () => {
  setSystemTime();
  for (const server of running.splice(0)) await server.close();
});

interface Said {
  id: number;
  ts: number;
  from: string;
  text: string;
}

async function historyOf(server: ScriptedServer, fields: Record<string, unknown> = {}): Promise<Said[]> {
  return (await server.ask({ cmd: 'history', session: 'api', ...fields }))['messages'] as Said[];
}

/** Lines of the history that nobody sent through the socket. */
async function told(server: ScriptedServer, many: number, from: 'human' | 'claude' = 'human'): Promise<void> {
  for (let count = 1; count <= many; count++)
    await server.control.store.record({ session: 'api', ts: 1000 + count, from, text: `${from} ${count}` });
}

describe('ping', () => {
  it('answers all four fields, zeros included [CCC-21]', async () => {
    const server = await serve();
    expect(await server.ask({ cmd: 'ping' })).toEqual({
      ok: true,
      version: '1.2.3',
      uptime_seconds: 0,
      sessions_active: 0,
    });
  });

  it('counts the seconds since the start, and the sessions that are not deleted [CCC-23, CCC-24, CCC-18]', async () => {
    let now = 10_000;
    const server = await serve(SESSIONS, { now: () => now, since: 10_000 });
    now += 2500;
    expect(await server.ask({ cmd: 'ping' })).toMatchObject({ uptime_seconds: 2, sessions_active: 4 });
    server.configure({ sessions: { api: { path: '/x' }, web: { path: '/y', deleted: true } } });
    expect(await server.ask({ cmd: 'ping' })).toMatchObject({ sessions_active: 1 });
  });

  it('says what is wrong with a file that cannot be read, and the server lives on', async () => {
    const server = await serve(SESSIONS);
    writeFileSync(server.config.path, '{"sessions": {');
    const { error } = await server.ask({ cmd: 'ping' });
    expect(error).toContain('.ccc.json is not a JSON object');
    server.configure(SESSIONS);
    expect((await server.ask({ cmd: 'ping' })).ok).toBe(true);
  });
});

describe('sessions', () => {
  it('lists what is configured and not deleted, sorted, with all its fields [CCC-27, CCC-29, CCC-30, CCC-32, CCC-63]', async () => {
    const server = await serve({ ...SESSIONS, flags: { claude: ['--verbose'] } });
    server.control.states.set('api', { status: 'active' });
    const { sessions } = await server.ask({ cmd: 'sessions' });
    expect((sessions as { name: string }[]).map(({ name }) => name)).toEqual(['api', 'gone:x', 'msi:backend', 'web']);
    expect((sessions as unknown[])[0]).toEqual({
      name: 'api',
      host: 'local',
      status: 'active',
      cwd: '/code/api',
      last_activity: 0,
      client: 'claude',
      flags: ['--verbose'],
    });
    expect((sessions as unknown[])[2]).toMatchObject({ name: 'msi:backend', host: 'msi', status: 'stopped' });
  });

  it('is an empty list where nothing is configured [CCC-28]', async () => {
    expect(await (await serve()).ask({ cmd: 'sessions' })).toEqual({ ok: true, sessions: [] });
  });

  it('says that an idle session waits for a person, and for what [CCC-163]', async () => {
    const server = await serve({ sessions: { api: { path: '/x' } } });
    server.control.states.set('api', { status: 'waiting', waitingFor: 'input needed' });
    const { sessions } = await server.ask({ cmd: 'sessions' });
    expect(sessions).toMatchObject([{ status: 'idle', waiting_for: 'input needed' }]);
  });

  it('takes last_activity from the newest history file [CCC-33]', async () => {
    const server = await serve(SESSIONS);
    await server.ask({ cmd: 'send', session: 'web', text: 'hello' });
    const folder = `${server.home}/.ccc/history/7/messages`;
    const [name = ''] = [...new Bun.Glob('*.jsonl').scanSync(folder)];
    utimesSync(`${folder}/${name}`, 1_700_000_000, 1_700_000_000);
    const listed = async (): Promise<unknown> =>
      ((await server.ask({ cmd: 'sessions' }))['sessions'] as { name: string }[]).find((one) => one.name === 'web');
    expect(await listed()).toMatchObject({ last_activity: 1_700_000_000 });
    await server.ask({ cmd: 'send', session: 'web', text: 'again' });
    const seconds = Math.floor(statSync(`${folder}/${name}`).mtimeMs / 1000);
    expect(seconds).toBeGreaterThan(1_700_000_000);
    expect(await listed()).toMatchObject({ last_activity: seconds });
  });
});

describe('ask', () => {
  it('answers with the text, the id of the reply and the time that it took [CCC-39, CCC-41, CCC-42]', async () => {
    const server = await serve(SESSIONS);
    setSystemTime(new Date(2026, 0, 1));
    server.control.scripts.set('api', async ({ text }) => {
      setSystemTime(new Date(Date.now() + 1234));
      return `re: ${text}`;
    });
    const answer = await server.ask({ cmd: 'ask', session: 'api', text: 'hello', from: 'ci' });
    expect(answer).toEqual({
      ok: true,
      response: 're: hello',
      message_id: expect.any(Number),
      duration_ms: 1234,
    });
    const [reply] = await historyOf(server, { after: (answer['message_id'] as number) - 1 });
    expect(reply).toMatchObject({ id: answer['message_id'], from: 'claude', text: 're: hello' });
  });

  it('stores the question and the answer, and who asked [CCC-47, CCC-48, CCC-82]', async () => {
    const server = await serve(SESSIONS);
    await server.ask({ cmd: 'ask', session: 'api', text: 'one', from: 'ci' });
    await server.ask({ cmd: 'ask', session: 'api', text: 'two' });
    expect(await historyOf(server)).toMatchObject([
      { from: 'api', agent: 'ci', text: 'one' },
      { from: 'claude', text: 're: one' },
      { from: 'api', agent: 'api', text: 'two' },
      { from: 'claude', text: 're: two' },
    ]);
  });

  it('marks an answer without a word as empty [CCC-51]', async () => {
    const server = await serve(SESSIONS);
    server.control.scripts.set('api', async () => '');
    expect(await server.ask({ cmd: 'ask', session: 'api', text: 'x' })).toMatchObject({ response: '', empty: true });
  });

  it('gives the prompt 5 minutes from its receipt [CCC-45, CCC-172]', async () => {
    const server = await serve(SESSIONS, { now: () => 1000 });
    await server.ask({ cmd: 'ask', session: 'api', text: 'x' });
    await server.ask({ cmd: 'send', session: 'api', text: 'x' });
    expect(server.control.asked.map(({ deadline }) => deadline)).toEqual([301_000, null]);
  });

  it('gives it another time if the request says so', async () => {
    const server = await serve(SESSIONS, { now: () => 1000 });
    for (const seconds of [1200, 0, 1e9])
      await server.ask({ cmd: 'ask', session: 'api', text: 'x', timeout_seconds: seconds });
    expect(server.control.asked.map(({ deadline }) => deadline)).toEqual([1_201_000, 301_000, 86_401_000]);
  });

  it('says the id of its prompt first if the request wants to know it', async () => {
    const server = await serve(SESSIONS);
    const caller = await server.caller();
    const event = await caller.ask({ cmd: 'ask', session: 'api', text: 'x', progress: true });
    expect(event as object).toEqual({ event: 'stored', message_id: 1 });
    expect(await caller.line()).toMatchObject({ ok: true, response: 're: x', message_id: 2 });
  });

  it('says if its answer is also to what a person typed meanwhile', async () => {
    const server = await serve(SESSIONS);
    const reply = { id: 7, session: 'api', ts: 1, from: 'claude', text: 'both', shared: true } as const;
    server.control.ask = async () => ({ outcome: 'answered', reply });
    expect(await server.ask({ cmd: 'ask', session: 'api', text: 'x' })).toMatchObject({
      response: 'both',
      shared: true,
    });
  });

  it('calls a client that does not start by its name', async () => {
    const server = await serve({ sessions: { api: { path: '/code/api', client: 'opencode' } } });
    server.control.scripts.set('api', async () => ({ outcome: 'not_started', because: 'it said no' }));
    expect(await server.ask({ cmd: 'ask', session: 'api', text: 'x' })).toMatchObject({
      error: 'failed to restart OpenCode: it said no',
    });
    server.control.restartFails = new Refusal('outcome_unknown', 'it said no');
    expect(await server.ask({ cmd: 'continue', session: 'api' })).toMatchObject({
      error: 'session started but OpenCode failed to initialize',
    });
  });

  it.each([
    [{ outcome: 'timeout' }, 'timeout waiting for response [CCC-45, CCC-131]'],
    [{ outcome: 'not_started', because: 'it said no' }, 'failed to restart Claude: it said no [CCC-138]'],
    [{ outcome: 'failed', because: 'the pane is gone' }, 'failed to send: the pane is gone [CCC-130]'],
    [{ outcome: 'interrupted' }, 'interrupted [CCC-180]'],
    [{ outcome: 'stopped' }, 'session stopped [CCC-180]'],
    [{ outcome: 'withdrawn' }, 'failed to send: it was withdrawn [CCC-124]'],
  ] as const)('that ends with %o says: %s', async (end, said) => {
    const server = await serve(SESSIONS);
    server.control.scripts.set('api', async () => end);
    const answer = await server.ask({ cmd: 'ask', session: 'api', text: 'x' });
    expect(answer).toEqual({ ok: false, error: said.replace(/ \[.*/, '') });
  });

  it('puts who asks before the text where the file says so', async () => {
    const server = await serve({ ...SESSIONS, label: true });
    await server.ask({ cmd: 'ask', session: 'api', text: 'hello', from: 'ci\nbot' });
    expect(server.control.asked[0]).toMatchObject({ text: '[from ci bot] hello', agent: 'ci bot' });
  });

  it('takes commands of the client only where the file allows it [CCC-173]', async () => {
    const server = await serve(SESSIONS);
    const raw = { cmd: 'ask', session: 'api', text: '/compact', raw: true };
    expect(await server.ask(raw)).toEqual({ ok: false, error: 'client commands are off (allow_commands)' });
    expect(server.control.asked).toEqual([]);
    server.configure({ ...SESSIONS, allow_commands: true });
    expect((await server.ask(raw)).ok).toBe(true);
    expect(server.control.asked[0]).toMatchObject({ raw: true });
  });
});

describe('send', () => {
  it('answers at once with the id of what was sent, and how far it is [CCC-53, CCC-59]', async () => {
    const server = await serve(SESSIONS);
    server.control.scripts.set('api', () => new Promise(() => {}));
    const answer = await server.ask({ cmd: 'send', session: 'api', text: 'run', from: 'ci' });
    expect(answer).toEqual({ ok: true, message_id: expect.any(Number), status: 'queued' });
    expect(await historyOf(server)).toMatchObject([{ id: answer['message_id'], from: 'api', agent: 'ci' }]);
  });

  it('gives ids that grow, also after a restart [CCC-54, CCC-84]', async () => {
    const server = await serve(SESSIONS);
    const ids: unknown[] = [];
    for (const session of ['api', 'web', 'api'])
      ids.push((await server.ask({ cmd: 'send', session, text: 'x' }))['message_id']);
    await server.close();
    running.splice(0);
    const next = await serve(SESSIONS, {}, server.home);
    ids.push((await next.ask({ cmd: 'send', session: 'api', text: 'x' }))['message_id']);
    expect(ids).toEqual([...new Set(ids as number[])].sort((a, b) => a - b));
    expect(ids[0]).toBeGreaterThan(0);
  });

  it('finds its answer later by its id [CCC-56]', async () => {
    const server = await serve(SESSIONS);
    const { message_id: id } = await server.ask({ cmd: 'send', session: 'api', text: 'run' });
    const poll = { after: id, from_filter: 'claude', limit: 1 };
    await within(5000, async () => (await historyOf(server, poll)).length === 1);
    expect(await historyOf(server, poll)).toMatchObject([{ text: 're: run', reply_to: id }]);
  });

  it('polled by its id gets its own answer, not one to what a person typed [CCC-171]', async () => {
    const server = await serve(SESSIONS);
    const { promise, resolve } = Promise.withResolvers<string>();
    server.control.scripts.set('api', () => promise);
    const { message_id: id } = await server.ask({ cmd: 'send', session: 'api', text: 'run' });
    await told(server, 1, 'human');
    await told(server, 1, 'claude');
    const poll = { after: id, from_filter: 'claude', limit: 1 };
    expect(await historyOf(server, poll)).toEqual([]);
    resolve('mine');
    await within(5000, async () => (await historyOf(server, poll)).length === 1);
    const [reply] = await historyOf(server, poll);
    expect(reply).toMatchObject({ text: 'mine', reply_to: id });
    expect(await historyOf(server, { ...poll, limit: 2 })).toMatchObject([{ text: 'claude 1' }, { text: 'mine' }]);
    expect(await historyOf(server, { ...poll, after: 0 })).toMatchObject([{ text: 'claude 1' }]);
  });
});

describe('continue', () => {
  it('answers exactly ok [CCC-61, CCC-62]', async () => {
    const server = await serve(SESSIONS);
    expect(await server.ask({ cmd: 'continue', session: 'api', from: 'ci' })).toEqual({ ok: true });
    expect(server.control.restarted).toEqual(['api']);
  });

  it('says whether the client did not come up, or nothing could be started [CCC-136, CCC-137]', async () => {
    const server = await serve(SESSIONS);
    server.control.restartFails = new Refusal('outcome_unknown', 'claude: exit 1');
    expect(await server.ask({ cmd: 'continue', session: 'api' })).toEqual({
      ok: false,
      error: 'session started but Claude failed to initialize',
      reason: 'claude: exit 1',
    });
    server.control.restartFails = new Refusal('unreachable', 'tmux is not installed');
    expect(await server.ask({ cmd: 'continue', session: 'api' })).toEqual({
      ok: false,
      error: 'failed to start: tmux is not installed',
    });
  });
});

describe('history', () => {
  it('walks forward by id, from the beginning if told so, and else shows the newest [CCC-72, CCC-73, CCC-74, CCC-86]', async () => {
    const server = await serve(SESSIONS);
    await told(server, 150);
    const newest = await historyOf(server);
    expect([newest.length, newest[0]?.text, newest.at(-1)?.text]).toEqual([100, 'human 51', 'human 150']);
    const first = await historyOf(server, { after: 0 });
    expect([first.length, first[0]?.text, first.at(-1)?.text]).toEqual([100, 'human 1', 'human 100']);
    let after = 0;
    const walked: string[] = [];
    for (
      let page = await historyOf(server, { after, limit: 1 });
      page[0];
      page = await historyOf(server, { after, limit: 1 })
    ) {
      walked.push(page[0].text);
      after = page[0].id;
    }
    expect(walked).toEqual(Array.from({ length: 150 }, (_, at) => `human ${at + 1}`));
  });

  it('filters by sender before it counts, and knows only three senders [CCC-75, CCC-76]', async () => {
    const server = await serve(SESSIONS);
    await server.ask({ cmd: 'ask', session: 'api', text: 'one', from: 'ci-bot' });
    await told(server, 20);
    const claude = await historyOf(server, { from_filter: 'claude', limit: 5 });
    expect(claude.map(({ text }) => text)).toEqual(['re: one']);
    expect(await historyOf(server, { from_filter: 'ci-bot' })).toEqual([]);
    expect(await historyOf(server, { from_filter: 'human', limit: 3 })).toMatchObject([
      { text: 'human 18' },
      { text: 'human 19' },
      { text: 'human 20' },
    ]);
  });

  it('is an empty list where nothing was said, and has the fields of the document [CCC-77, CCC-78, CCC-83]', async () => {
    const server = await serve(SESSIONS);
    expect(await server.ask({ cmd: 'history', session: 'api' })).toEqual({ ok: true, messages: [] });
    const line = { session: 'api', ts: 1_705_412_345, from: 'human' as const, text: 'hi', username: 'terminal' };
    await server.control.store.record(line);
    const id = expect.any(Number);
    expect(await historyOf(server)).toEqual([
      { id, ts: 1_705_412_345, from: 'human', text: 'hi', username: 'terminal' } as never,
    ]);
  });

  it('takes limits below 1 as the default, and none above 10,000 [CCC-170]', async () => {
    const server = await serve(SESSIONS);
    await told(server, 120);
    for (const limit of [0, -5, null]) expect(await historyOf(server, { limit })).toHaveLength(100);
    expect(await historyOf(server, { limit: 99_999_999 })).toHaveLength(120);
  });

  it('shows a short message behind a very long one [CCC-85]', async () => {
    const server = await serve(SESSIONS);
    await server.ask({ cmd: 'ask', session: 'api', text: 'x'.repeat(70_000) });
    await server.ask({ cmd: 'ask', session: 'api', text: 'short' });
    expect((await historyOf(server)).map(({ text }) => text.length)).toEqual([70_000, 70_004, 5, 9]);
  });
});

describe('activity', () => {
  it('has a line for every session, and zeros where nothing was said [CCC-88, CCC-89, CCC-90]', async () => {
    const server = await serve(SESSIONS);
    await server.ask({ cmd: 'ask', session: 'api', text: 'hello' });
    const { activity } = await server.ask({ cmd: 'activity' });
    expect(activity).toEqual([
      {
        name: 'api',
        lastMessageId: expect.any(Number),
        lastMessageTs: expect.any(Number),
        lastFrom: 'claude',
        lastText: 're: hello',
      },
      { name: 'gone:x', lastMessageId: 0, lastMessageTs: 0 },
      { name: 'msi:backend', lastMessageId: 0, lastMessageTs: 0 },
      { name: 'web', lastMessageId: 0, lastMessageTs: 0 },
    ] as never);
  });

  it.each([
    ['x'.repeat(100), 'x'.repeat(100)],
    ['x'.repeat(101), `${'x'.repeat(100)}...`],
    ['🙂'.repeat(101), `${'🙂'.repeat(100)}...`],
    ['漢'.repeat(100), '漢'.repeat(100)],
  ])('cuts a text after 100 characters, between two of them [CCC-91]', async (text, shown) => {
    const server = await serve({ sessions: { api: { path: '/x' } } });
    await server.control.store.record({ session: 'api', ts: 1, from: 'human', text });
    expect((await server.ask({ cmd: 'activity' }))['activity']).toMatchObject([{ lastText: shown }]);
  });

  it('shows what was said for a voice message, and the caption of a photo [CCC-92]', async () => {
    const server = await serve({ sessions: { api: { path: '/x' } } });
    const line = { session: 'api', ts: 1, from: 'human' as const, text: '' };
    await server.control.store.record({ ...line, type: 'voice', transcription: 'spoken' });
    expect((await server.ask({ cmd: 'activity' }))['activity']).toMatchObject([{ lastText: 'spoken' }]);
    await server.control.store.record({ ...line, type: 'photo', caption: 'a cat' });
    expect((await server.ask({ cmd: 'activity' }))['activity']).toMatchObject([{ lastText: 'a cat' }]);
  });

  it('has a greater id after each new message [CCC-94]', async () => {
    const server = await serve({ sessions: { api: { path: '/x' } } });
    const seen: number[] = [];
    for (const text of ['one', 'two', 'three']) {
      await server.ask({ cmd: 'ask', session: 'api', text });
      const { activity } = await server.ask({ cmd: 'activity' });
      seen.push((activity as { lastMessageId: number }[])[0]?.lastMessageId ?? 0);
    }
    expect(seen).toEqual([...new Set(seen)].sort((a, b) => a - b));
  });
});

describe('screenshot', () => {
  it('shows the last lines of the terminal, 50 unless told otherwise [CCC-95, CCC-96, CCC-99]', async () => {
    const server = await serve(SESSIONS);
    server.control.screens.set('api', Array.from({ length: 80 }, (_, at) => `line ${at}`).join('\n'));
    const shown = async (fields: Record<string, unknown>): Promise<string[]> =>
      String((await server.ask({ cmd: 'screenshot', session: 'api', ...fields }))['response']).split('\n');
    expect(await shown({})).toHaveLength(50);
    expect(await shown({ limit: 5 })).toEqual(['line 75', 'line 76', 'line 77', 'line 78', 'line 79']);
  });

  it('of a session that does not run is a clear error [CCC-100]', async () => {
    const server = await serve(SESSIONS);
    const said = await server.ask({ cmd: 'screenshot', session: 'api' });
    expect(said).toEqual({ ok: false, error: 'capture failed: it does not run' });
  });
});

describe('questions and answer', () => {
  it('have nothing while no question is open [CCC-102, CCC-132]', async () => {
    const server = await serve(SESSIONS);
    expect(await server.ask({ cmd: 'questions', session: 'api' })).toEqual({ ok: true });
    expect(await server.ask({ cmd: 'answer', session: 'api', question_index: 0, option_index: 1 })).toEqual({
      ok: false,
      error: 'no pending questions for this session',
    });
  });

  it('need both indices [CCC-108]', async () => {
    const server = await serve(SESSIONS);
    server.control.questionsOf('api').asks([aQuestion()]);
    const answer = { cmd: 'answer', session: 'api' };
    expect(await server.ask(answer)).toEqual({ ok: false, error: 'question_index required' });
    expect(await server.ask({ ...answer, question_index: 0 })).toEqual({ ok: false, error: 'option_index required' });
    const both = await server.ask({ ...answer, question_index: 0, option_index: 0, text: 'x' });
    expect(both).toEqual({ ok: false, error: 'give one of option_index, option_indexes and text' });
    expect(server.control.questionsOf('api').entered).toEqual([]);
  });

  it('show what is asked, false and 0 included [CCC-103, CCC-104]', async () => {
    const server = await serve(SESSIONS);
    const options = aQuestion().options;
    const questions = [aQuestion(), aQuestion({ question: 'Which of these?', header: '', multiSelect: true })];
    const { askedAt } = server.control.questionsOf('api').asks(questions);
    const shown = async () => (await server.ask({ cmd: 'questions', session: 'api' }))['questions'];
    const first = { question: 'Which database should we use?', header: 'Database', options, multi_select: false };
    const second = { question: 'Which of these?', header: '', options, multi_select: true, answered: false };
    const timestamp = Math.floor(askedAt / 1000);
    expect(await shown()).toEqual({
      session: 'api',
      questions: [{ ...first, answered: false }, second],
      timestamp,
    });
    expect(options[2]).toEqual({ label: 'SQLite' });
    await server.ask({ cmd: 'answer', session: 'api', question_index: 0, option_index: 0 });
    expect(await shown()).toMatchObject({ questions: [{ ...first, answered: true, answer_index: 0 }, second] });
  });

  it('take an answer, say which, and put it into the history when the client has it [CCC-111, CCC-112]', async () => {
    const server = await serve(SESSIONS);
    const asking = server.control.questionsOf('api');
    asking.asks([aQuestion()]);
    expect(await server.ask({ cmd: 'answer', session: 'api', question_index: 0, option_index: 1 })).toEqual({
      ok: true,
      response: 'answered question 0 with option 1 (MongoDB)',
    });
    expect(asking.entered).toEqual([[{ options: [1] }]]);
    expect(await historyOf(server)).toMatchObject([{ from: 'human', text: 'Selected: MongoDB' }]);
    expect(await server.ask({ cmd: 'questions', session: 'api' })).toEqual({ ok: true });
  });

  it('take several options and a text [CCC-115, CCC-185]', async () => {
    const server = await serve(SESSIONS);
    const asking = server.control.questionsOf('api');
    const answer = { cmd: 'answer', session: 'api', question_index: 0 };
    asking.asks([aQuestion({ multiSelect: true })]);
    expect(await server.ask({ ...answer, option_indexes: [0, 2] })).toEqual({
      ok: true,
      response: 'answered question 0 with options 0, 2 (PostgreSQL, SQLite)',
    });
    asking.asks([aQuestion()]);
    expect(await server.ask({ ...answer, text: ' none of them ' })).toEqual({
      ok: true,
      response: 'answered question 0 with text (none of them)',
    });
    expect((await historyOf(server)).map(({ text }) => text)).toEqual([
      'Selected: PostgreSQL, SQLite',
      'Selected: none of them',
    ]);
  });

  it.each([
    [{ question_index: 1, option_index: 0 }, 'question_index out of range (0-0) [CCC-134]'],
    [{ question_index: -1, option_index: 0 }, 'question_index out of range (0-0) [CCC-134]'],
    [{ question_index: 0, option_index: 3 }, 'option_index out of range (0-2) [CCC-135]'],
    [{ question_index: 0, option_indexes: [0, 9] }, 'option_index out of range (0-2) [CCC-135]'],
    [{ question_index: 0, option_index: 0, timestamp: 12 }, 'no pending questions for this session [CCC-183]'],
  ] as const)('%o: %s [CCC-113]', async (request, said) => {
    const server = await serve(SESSIONS);
    server.control.questionsOf('api').asks([aQuestion()]);
    const answer = await server.ask({ cmd: 'answer', session: 'api', ...request });
    expect(answer).toEqual({ ok: false, error: said.replace(/ \[.*/, '') });
    expect(server.control.questionsOf('api').entered).toEqual([]);
  });

  it('take each question once, and say why the client did not take an answer [CCC-133, CCC-138]', async () => {
    const server = await serve(SESSIONS);
    const asking = server.control.questionsOf('api');
    asking.asks([aQuestion(), aQuestion()]);
    const answer = (question: number) =>
      server.ask({ cmd: 'answer', session: 'api', question_index: question, option_index: 0 });
    expect(await answer(1)).toMatchObject({ ok: true });
    expect(await answer(1)).toEqual({ ok: false, error: 'question already answered' });
    asking.ends.push({ outcome: 'left', because: 'somebody types in this terminal' });
    expect(await answer(0)).toEqual({ ok: false, error: 'failed to send keys: somebody types in this terminal' });
    expect(await answer(0)).toMatchObject({ ok: true });
    expect(await answer(0)).toEqual({ ok: false, error: 'question already answered' });
  });

  it('show permissions, and approve none unless a person wrote so into the file [CCC-182]', async () => {
    const server = await serve(SESSIONS);
    const asking = server.control.questionsOf('api');
    const options = [{ label: 'Yes' }, { label: 'No' }];
    asking.asks([{ question: 'Do you want to proceed?', header: 'Bash command', options, multiSelect: false }], {
      kind: 'permission',
    });
    expect(await server.ask({ cmd: 'questions', session: 'api' })).toMatchObject({
      questions: { kind: 'permission', questions: [{ options, answered: false }] },
    });
    const approve = { cmd: 'answer', session: 'api', question_index: 0, option_index: 0 };
    expect(await server.ask(approve)).toEqual({ ok: false, error: 'answering permissions is off' });
    expect(asking.entered).toEqual([]);
    server.configure({ ...SESSIONS, control_may_approve: true });
    expect(await server.ask(approve)).toMatchObject({ ok: true });
  });
});

describe('errors', () => {
  it.each([
    [{ cmd: 'zzz' }, 'unknown command [CCC-126]'],
    [{}, 'unknown command [CCC-126]'],
    [{ cmd: 'constructor' }, 'unknown command [CCC-126]'],
    [{ cmd: 'ask' }, 'session required [CCC-37]'],
    [{ cmd: 'ask', session: 'api' }, 'session and text required [CCC-37]'],
    [{ cmd: 'send', session: 'api', text: ' \n' }, 'session and text required [CCC-52]'],
    [{ cmd: 'send', text: 'x' }, 'session required [CCC-52]'],
    [{ cmd: 'continue' }, 'session required [CCC-61, CCC-127]'],
    [{ cmd: 'history' }, 'session required [CCC-71, CCC-127]'],
    [{ cmd: 'screenshot' }, 'session required [CCC-95, CCC-127]'],
    [{ cmd: 'questions' }, 'session required [CCC-101, CCC-127]'],
    [{ cmd: 'answer' }, 'session required [CCC-127]'],
    [{ cmd: 'ask', session: 'nosuch', text: 'x' }, 'session not found [CCC-128]'],
    [{ cmd: 'send', session: 'old', text: 'x' }, 'session not found [CCC-128]'],
    [{ cmd: 'history', session: 'old' }, 'session not found [CCC-87]'],
    [{ cmd: 'questions', session: 'nosuch' }, 'session not found [CCC-102]'],
    [{ cmd: 'continue', session: '__proto__' }, 'session not found [CCC-128]'],
    [{ cmd: 'ask', session: 'gone:x', text: 'x' }, 'host not configured [CCC-129]'],
    [{ cmd: 'screenshot', session: 'gone:x' }, 'host not configured [CCC-129]'],
  ] as const)('%o: %s', async (request, said) => {
    const server = await serve(SESSIONS);
    expect(await server.ask(request)).toEqual({ ok: false, error: said.replace(/ \[.*/, '') });
    expect(server.control.asked).toEqual([]);
  });
});

describe('a session without a chat', () => {
  it('has history, too, under an id of its own [CCC-162]', async () => {
    const server = await serve(SESSIONS);
    mkdirSync(`${server.home}/.ccc`, { recursive: true });
    await server.ask({ cmd: 'ask', session: 'api', text: 'hello' });
    const files = [...new Bun.Glob('*/messages/*.jsonl').scanSync(`${server.home}/.ccc/history`)];
    expect(files).toEqual([expect.stringMatching(/^session-api\/messages\//) as unknown as string]);
    expect(await historyOf(server)).toHaveLength(2);
  });
});

describe('a session that was removed', () => {
  it('shows its history to those who ask for it by name', async () => {
    const server = await serve(SESSIONS);
    await server.ask({ cmd: 'ask', session: 'api', text: 'hello' });
    server.configure({ sessions: { api: { path: '/code/api', deleted: true } } });
    expect((await server.ask({ cmd: 'history', session: 'api' })).error).toBe('session not found');
    expect(await historyOf(server, { deleted: true })).toHaveLength(2);
    expect((await server.ask({ cmd: 'history', session: 'nosuch', deleted: true })).error).toBe('session not found');
  });
});

describe('the queue', () => {
  it('can be seen, and a prompt that was not typed yet can be taken back', async () => {
    const server = await serve(SESSIONS);
    server.control.scripts.set('api', () => new Promise(() => {}));
    const { message_id: id } = await server.ask({ cmd: 'send', session: 'api', text: 'later' });
    expect((await server.ask({ cmd: 'queue' }))['queue']).toMatchObject([
      { id, session: 'api', state: 'queued', text: 'later' },
    ]);
    expect(await server.ask({ cmd: 'cancel', message_id: id })).toEqual({ ok: true });
    expect(await server.ask({ cmd: 'queue', session: 'api' })).toEqual({ ok: true, queue: [] });
    expect((await server.ask({ cmd: 'cancel', message_id: id })).error).toBe('too late: it has ended (withdrawn)');
    expect(await historyOf(server)).toMatchObject([{ id, status: 'withdrawn' }]);
  });

  it('shows the beginning of each text only [CCC-204]', async () => {
    const server = await serve(SESSIONS);
    server.control.scripts.set('api', () => new Promise(() => {}));
    await server.ask({ cmd: 'send', session: 'api', text: '漢'.repeat(250_000) });
    await server.ask({ cmd: 'send', session: 'api', text: '🙂'.repeat(200) });
    const { queue } = await server.ask({ cmd: 'queue' });
    expect(queue).toMatchObject([{ text: `${'漢'.repeat(200)}...` }, { text: '🙂'.repeat(200) }]);
  });

  it('says why a prompt cannot be taken back', async () => {
    const server = await serve(SESSIONS);
    server.control.scripts.set('api', () => new Promise(() => {}));
    const { message_id: id } = await server.ask({ cmd: 'send', session: 'api', text: 'typed' });
    await server.control.store.begin(Number(id), 'a place');
    expect((await server.ask({ cmd: 'cancel', message_id: id })).error).toStartWith('too late: it was typed');
    expect((await server.ask({ cmd: 'cancel', message_id: 999 })).error).toBe('no prompt 999');
  });
});
