import { afterEach, describe, expect, it } from 'bun:test';
import { mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { within } from '../../../test/support/within.ts';
import { MessageId } from '../../core/names.ts';
import { startOf } from '../../platform/process.ts';
import { NoServer } from '../loopback.ts';
import { KimiIndex } from './record.ts';
import { KimiWebQuestions } from './web-questions.ts';
import { KimiWebSession } from './web-session.ts';
import { KimiWebSessions } from './web-way.ts';
import { hasOtherKimi, isKimiWindow, isOnServer, KimiServer, kimiServers, WebRefusal } from './web.ts';

/** The limit for one call to a server. */
const ANSWER_MS = 5000;

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

describe('a server of Kimi', () => {
  it('is one whose process runs and is a Kimi', async () => {
    const home = aHome();
    const kimi = await aProcess('kimi-code', home);
    const other = await aProcess('node', home);
    for (const pid of [kimi, other, 2 ** 22 + 1]) announce(home, { pid });
    announce(home, { pid: kimi, host: '192.0.2.1', port: 2 });
    // Another Kimi had this pid before.
    announce(home, { pid: kimi, port: 3, heartbeat_at: Date.now() - 60_000 });
    expect(kimiServers(home).map(({ pid, port }) => [pid, port])).toEqual([[kimi, 1]]);
    expect(kimiServers(`${home}/nowhere`)).toEqual([]);
  });

  it('is no window of Kimi, and does not block mail for its own sessions', async () => {
    const home = aHome();
    const folder = aHome();
    const server = await aProcess('kimi-code', folder);
    announce(home, { pid: server });
    expect(isKimiWindow(home)(['kimi-code'], '', server)).toBe(false);
    expect(hasOtherKimi(home, folder)).toBe(false);
    const window = await aProcess('kimi-code', folder);
    expect(isKimiWindow(home)(['kimi-code'], '', window)).toBe(true);
    expect(hasOtherKimi(home, folder)).toBe(true);
    symlinkSync(folder, `${home}/link`);
    expect(hasOtherKimi(home, `${home}/link`)).toBe(true);
  });

  it('is sent the token only if a program of our own user listens at the port', async () => {
    const { server, asked } = aServer(() => ({}));
    const foreign = new KimiServer(server.home, server.pid, server.port, (process.getuid?.() ?? 0) + 1);
    await expect(foreign.call('GET', '/meta')).rejects.toThrow(NoServer);
    expect(asked).toEqual([]);
    await server.call('GET', '/meta');
    expect(asked).toEqual([{ method: 'GET', path: '/api/v1/meta', token: 'Bearer secret' }]);
  });

  it('counts a session as loaded if it has a model, or is not idle', async () => {
    const items = [
      aSession('cold'),
      aSession('warm', { agent_config: { model: 'one' } }),
      aSession('busy', { busy: true }),
    ];
    const { server } = aServer(() => ({ items }));
    expect((await server.loaded()).map(({ id }) => id)).toEqual(['warm', 'busy']);
  });

  it.each([
    ['another session', { id: 's2' }],
    ['nothing that Kimi 2.1 says', { busy: 'maybe' }],
  ])('says nothing about a session where it answers %s', async (_case, more) => {
    const { server } = aServer(() => aSession('s1', more));
    await expect(server.session('s1')).rejects.toThrow('a form that Kimi 2.1 does not use');
  });

  it('may have loaded a session as long as its answer does not exclude that', async () => {
    const { server } = aServer((path) => (path.endsWith('s1') ? { id: 's1' } : aSession('s2', { busy: true })));
    const kimi = await aProcess('kimi-code', aHome());
    announce(server.home, { pid: kimi, port: server.port });
    await expect(isOnServer(server.home, 's1')).rejects.toThrow('a form that Kimi 2.1 does not use');
    expect(await isOnServer(server.home, 's2')).toBe(true);
    const [meant] = kimiServers(server.home);
    expect(await isOnServer(server.home, 's2', meant)).toBe(false);
  });
});

describe('the sessions of servers', () => {
  it('are listed without delay while a server hangs, and have a way again when it answers', async () => {
    const hang = Promise.withResolvers<void>();
    let isHung = false;
    const { server } = aServer(async () => {
      if (isHung) await hang.promise;
      return { items: [aSession('s1', { busy: true })] };
    });
    announce(server.home, { pid: await aProcess('kimi-code', aHome()), port: server.port });
    const sessions = new KimiWebSessions(new KimiIndex(server.home));
    const record = { has: () => false, proof: async () => ({ step: 'none', isOver: false }) as const };
    const [first] = await sessions.list();
    expect(first && sessions.way(first, record)?.name).toBe('rpc');
    isHung = true;
    const from = performance.now();
    for (let looks = 0; looks < 20; looks += 1) expect(await sessions.list()).toMatchObject([{ id: 's1' }]);
    expect(first && (await sessions.isOver(first, MessageId.parse(crypto.randomUUID())))).toBeNull();
    expect(performance.now() - from).toBeLessThan(ANSWER_MS);
    expect(first && sessions.way(first, record)).toBeNull();
    isHung = false;
    hang.resolve();
    await within(10_000, async () => first !== undefined && sessions.way(first, record) !== null);
  });
});

it('have a way also if their server answers each time after the look that asked it', async () => {
  let answer = Promise.withResolvers<void>();
  answer.resolve();
  const { server } = aServer(async () => {
    await answer.promise;
    return { items: [aSession('s1', { busy: true })] };
  });
  announce(server.home, { pid: await aProcess('kimi-code', aHome()), port: server.port });
  const sessions = new KimiWebSessions(new KimiIndex(server.home));
  const record = { has: () => false, proof: async () => ({ step: 'none', isOver: false }) as const };
  const [first] = await sessions.list();
  const hasWay = (): boolean => first !== undefined && sessions.way(first, record) !== null;
  answer = Promise.withResolvers<void>();
  await sessions.list();
  expect(hasWay()).toBe(false);
  answer.resolve();
  await within(10_000, async () => hasWay());
  answer = Promise.withResolvers<void>();
  await sessions.list();
  expect(hasWay()).toBe(true);
  answer.resolve();
});

describe('a prompt for a session on a server', () => {
  it.each([
    ['may be tried again if the session is busy', 40901, { outcome: 'left', retry: true }],
    ['is refused for good if it is invalid', 40001, { outcome: 'left', retry: false }],
    ['may have gone in if the server failed inside', 50001, { outcome: 'unknown' }],
  ])('%s', async (_what, refusal, said) => {
    const folder = aHome();
    // The session names its folder by a link.
    const cwd = `${aHome()}/link`;
    symlinkSync(folder, cwd);
    const session = aSession('s1', { metadata: { cwd }, agent_config: { model: 'one' } });
    const { server } = aServer((path, method) => {
      if (method === 'POST') return new WebRefusal(refusal, 'no');
      if (path.endsWith('/config')) return { default_model: 'one' };
      return path.endsWith('s1') ? session : { items: [session] };
    });
    announce(server.home, { pid: await aProcess('kimi-code', aHome()), port: server.port });
    const own = { name: 'api', host: '', client: 'kimi', folder };
    const target = { ...own, command: ['kimi', 'web'], conversation: 's1', startTimeoutMs: 1000 };
    const env = { HOME: server.home, KIMI_CODE_HOME: server.home, TMUX_TMPDIR: server.home, PATH: process.env['PATH'] };
    const driver = new KimiWebSession(target, env);
    const prompt = { key: 'one', text: 'do it' };
    expect(await driver.submit(prompt, new AbortController().signal)).toMatchObject(said);
    await driver.close();
  });
});

describe('what a session on a server asks', () => {
  it('is a plan with options of its own, each approved by its label', async () => {
    const display = {
      kind: 'plan_review',
      plan: 'PLAN',
      options: [
        { label: 'Small', description: 's' },
        { label: 'Big', description: 'b' },
      ],
    };
    const { questions, posted } = asking({ tool_name: 'ExitPlanMode', tool_input_display: display });
    const open = await questions.open();
    expect(open).toMatchObject({ call: 'approval_1', kind: 'plan' });
    expect(open?.questions[0]?.options.map(({ label }) => label)).toEqual(['Small', 'Big', 'Reject', 'Revise']);
    await questions.answer('approval_1', [{ options: [1] }], new AbortController().signal);
    expect(posted()).toEqual({ decision: 'approved', selected_label: 'Big' });
  });

  it('is a goal that can only be refused, because starting it also changes the permission mode', async () => {
    const display = { kind: 'goal_start', objective: 'GOAL', mode: 'manual' };
    const { questions } = asking({ tool_name: 'CreateGoal', tool_input_display: display });
    expect((await questions.open())?.questions[0]?.options).toEqual([{ label: 'Reject' }]);
  });

  it('is rejected by an answer that names no option', async () => {
    const { questions, posted } = asking({ tool_name: 'Bash', tool_input_display: { kind: 'command', command: 'ls' } });
    await questions.answer('approval_1', [{ options: [] }], new AbortController().signal);
    expect(posted()).toEqual({ decision: 'rejected' });
  });

  it('is not listed while no question is open, because listing loads the session', async () => {
    const { server, asked } = aServer(() => aSession('s1'));
    const questions = new KimiWebQuestions(
      async () => server,
      () => 's1',
      new KimiIndex(server.home),
    );
    expect(await questions.open()).toBeNull();
    expect(asked.map(({ path }) => path)).toEqual(['/api/v1/sessions/s1']);
  });
});

function asking(approval: object) {
  const item = { approval_id: 'approval_1', action: 'act', created_at: new Date().toISOString(), ...approval };
  const { server, asked } = aServer((path, method) => {
    if (method === 'POST') return { resolved: true };
    if (path.endsWith('/approvals')) return { items: [item] };
    return path.endsWith('/questions') ? { items: [] } : aSession('s1', { pending_interaction: 'approval' });
  });
  const questions = new KimiWebQuestions(
    async () => server,
    () => 's1',
    new KimiIndex(server.home),
  );
  return { questions, posted: () => asked.find(({ method }) => method === 'POST')?.body };
}

function aSession(id: string, more: object = {}) {
  const idle = { busy: false, main_turn_active: false, pending_interaction: 'none', agent_config: { model: '' } };
  return { id, metadata: { cwd: '/project' }, ...idle, ...more };
}

interface Asked {
  method: string;
  path: string;
  token: string;
  body?: unknown;
}

/** A server that answers with `answer`, and the requests that it got. */
function aServer(answer: (path: string, method: string) => object | Promise<object>) {
  const home = aHome();
  writeFileSync(`${home}/server.token`, 'secret\n');
  const asked: Asked[] = [];
  const listening = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const { method, url, headers } = request;
      const path = new URL(url).pathname;
      const body: unknown = method === 'POST' ? await request.json() : undefined;
      asked.push({ method, path, token: headers.get('authorization') ?? '', ...(method === 'POST' && { body }) });
      const data = await answer(path, method);
      return Response.json(data instanceof WebRefusal ? { code: data.code, msg: data.message } : { code: 0, data });
    },
  });
  ends.push(() => void listening.stop(true));
  return { server: new KimiServer(home, process.pid, listening.port ?? 0), asked };
}

function aHome(): string {
  return realpathSync(temporaryHome());
}

/** A process with this name. */
async function aProcess(name: string, cwd: string): Promise<number> {
  const child = Bun.spawn(['bash', '-c', `exec -a ${name} sleep 100`], { cwd });
  ends.push(() => child.kill());
  const isThere = async (): Promise<boolean> =>
    startOf(child.pid) !== null && (await Bun.file(`/proc/${child.pid}/cmdline`).text()).startsWith(name);
  await within(10_000, isThere);
  return child.pid;
}

function announce(home: string, more: object): void {
  const instance = { host: '127.0.0.1', port: 1, heartbeat_at: Date.now(), ...more };
  mkdirSync(`${home}/server/instances`, { recursive: true });
  writeFileSync(`${home}/server/instances/${crypto.randomUUID()}.json`, JSON.stringify(instance));
}
