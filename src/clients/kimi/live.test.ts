import { afterEach, describe, expect, it } from 'bun:test';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { within } from '../../../test/support/within.ts';
import { AgentName, MessageId } from '../../core/names.ts';
import type { LiveSession } from '../../core/ports/live-session.ts';
import { HeldSessions } from '../../delivery/held-session.ts';
import type { HeldSession, HolderAnswer } from '../../delivery/held-session.ts';
import { startOf } from '../../platform/process.ts';
import type { ClientProcess } from '../../sessions/client-window.ts';
import { KimiLive } from './live.ts';

const ID = MessageId.parse('17621ca0-bfbd-4873-978d-986e7cba116d');
const MAIL = '[parley ab12] Mail for @me.\n[parley ab12] message 17621ca0 from @bob to @me\nhi';
const OWN = { pid: process.pid, start: startOf(process.pid) };
const GONE = { pid: 2 ** 22 + 1, start: '1' };

const opened: { stop(): unknown }[] = [];
afterEach(() => {
  for (const one of opened.splice(0)) one.stop();
});

describe('the running sessions of Kimi', () => {
  it('are those whose terminal is held; before they have a conversation, their process is their id', async () => {
    const { live, hold, write } = aHome();
    hold({ seen: 'starting' });
    expect(await live.list()).toMatchObject([{ id: `kimi-${OWN.pid}-${OWN.start}`, pid: OWN.pid, status: 'starting' }]);
    hold({ seen: 'empty' });
    expect(await live.list()).toMatchObject([{ status: 'idle', folder: '/work' }]);
    hold({ seen: 'dialog' });
    expect(await live.list()).toMatchObject([{ status: 'waiting' }]);
    write('session_1', prompt('hi'));
    hold({ seen: 'empty', session: 'session_1' });
    expect(await live.list()).toMatchObject([{ id: 'session_1', status: 'active' }]);
    write('session_1', asks);
    expect(await live.list()).toMatchObject([{ status: 'waiting', waitingFor: 'approval' }]);
    write('session_1', line('turn.ended', { reason: 'completed' }));
    expect(await live.list()).toMatchObject([{ status: 'idle' }]);
    expect(live.ways((await live.list())[0] as LiveSession).map(({ name }) => name)).toEqual(['terminal']);
  });

  it('can be typed to only while idle with an empty composer, and a watch reports when that changes', async () => {
    const { live, hold, write } = aHome();
    hold({ seen: 'draft' });
    const ways = async () => live.ways((await live.list())[0] as LiveSession).length;
    let changes = 0;
    live.watch(() => (changes += 1));
    for (const seen of ['draft', 'busy', 'dialog', 'unknown', 'starting'] as const) {
      hold({ seen });
      expect(await ways()).toBe(0);
    }
    const before = changes;
    hold({ seen: 'empty' });
    expect(await ways()).toBe(1);
    await within(20_000, async () => changes > before);
    write('session_1', prompt('hi'));
    hold({ seen: 'empty', session: 'session_1' });
    expect(await ways()).toBe(0);
    await live.close();
  });

  it('say when their mail comes, and whether their model has tools of Parley', async () => {
    const { live, hold, write, home } = aHome();
    const said = async () => (await live.list())[0]?.mailComes;
    hold({ seen: 'draft' });
    expect([await said(), (await live.list())[0]?.hasNoTools]).toEqual(['when its composer is empty', true]);
    write('session_1', prompt('hi'));
    hold({ seen: 'busy', session: 'session_1' });
    expect(await said()).toBe('at the end of its turn');
    hold({ seen: 'dialog', session: 'session_1' });
    expect(await said()).toBe('when its user has answered and its turn is over');
    const server = { command: 'parley', args: ['mcp', '--client', 'kimi'] };
    writeFileSync(`${home}/.kimi-code/mcp.json`, JSON.stringify({ mcpServers: { parley: server } }, null, 2));
    expect((await live.list())[0]?.hasNoTools).toBeUndefined();
  });

  it('include one that a person opened, if its conversation is certain; nothing is typed there', async () => {
    const windows: ClientProcess[] = [{ pid: OWN.pid, tty: '/dev/pts/9', folder: '/work', words: ['kimi-code'] }];
    const { live, write } = aHome(windows);
    expect(await live.list()).toEqual([]);
    write('session_1', prompt('hi'));
    const [session] = await live.list();
    expect(session).toMatchObject({ id: 'session_1', folder: '/work', pid: OWN.pid });
    expect(session && live.ways(session)).toEqual([]);
    windows.push({ pid: process.ppid, tty: '/dev/pts/8', folder: '/work', words: ['kimi-code'] });
    expect(await live.list()).toEqual([]);
  });
});

describe('what Kimi was given', () => {
  const session = { client: 'kimi', folder: '/work', status: 'idle' } as const;
  const held: LiveSession = { ...session, id: 'kimi-x', pid: OWN.pid, ...(OWN.start !== null && { start: OWN.start }) };

  it('is proven by the conversation in which it is found, also one that began with it', async () => {
    const { live, hold, write } = aHome();
    const since = Date.now();
    hold({ seen: 'empty' });
    write('session_1', prompt(MAIL));
    expect(await live.proof(held, ID, since)).toMatchObject({ step: 'accepted' });
    write(
      'session_1',
      line('llm.request', { kind: 'loop', turnStep: '0.1' }),
      line('usage.record', { usageScope: 'turn' }),
    );
    expect(await live.proof(held, ID, since)).toMatchObject({ step: 'shown', turn: { id: 'msg_1' } });
  });

  it('may be given again, once Kimi is idle, if a summary replaced it before the model had it', async () => {
    const { live, hold, write } = aHome();
    const since = Date.now();
    hold({ seen: 'empty', session: 'session_1', startedAt: since });
    write('session_1', prompt(MAIL), appended(MAIL));
    write('session_1', line('context.apply_compaction', {}));
    const own: LiveSession = { ...held, id: 'session_1' };
    expect(await live.proof(own, ID, since)).toMatchObject({ step: 'accepted' });
    write('session_1', line('turn.ended', { reason: 'failed' }));
    expect(await live.proof(own, ID, since)).toEqual({ step: 'none', isOver: true });
  });

  it.each<[HolderAnswer['typed'] | 'silent', boolean]>([
    ['unknown', true],
    ['waits', true],
    ['entered', false],
    ['stranded', false],
    ['silent', false],
  ])('may be given again if the holder of its terminal did not type it: %s', async (typed, isOver) => {
    const { live, hold, answer } = aHome();
    hold({ seen: 'empty' });
    if (typed !== 'silent') answer({ typed, because: '' });
    expect(await live.proof(held, ID, Date.now())).toEqual({ step: 'none', isOver });
  });

  it('is not given again to a Kimi that resumes the conversation which has it: its next request proves it', async () => {
    const { live, hold, write } = aHome();
    const ended = { ...session, id: 'session_1', ...GONE };
    const since = Date.now();
    write('session_1', prompt(MAIL), appended(MAIL));
    expect(await live.proof(ended, ID, since)).toEqual({ step: 'none', isOver: true });
    hold({ seen: 'empty', session: 'session_1', startedAt: since + 60_000 });
    expect(await live.proof(ended, ID, since)).toMatchObject({ step: 'accepted' });
    // It was handed over again meanwhile, and not typed.
    const own: LiveSession = { ...held, id: 'session_1' };
    const later = since + 120_000;
    expect(await live.proof(own, ID, later)).toMatchObject({ step: 'accepted' });
    write('session_1', prompt('go on'), appended('go on'));
    write('session_1', line('llm.request', { kind: 'loop', turnStep: '1.1' }));
    write('session_1', line('usage.record', { usageScope: 'turn' }));
    expect(await live.proof(own, ID, later)).toMatchObject({ step: 'shown' });
  });

  it('may be given again if its process has ended, also if the conversation has it unanswered', async () => {
    const { live, write } = aHome();
    const ended = { ...session, id: 'session_1', ...GONE };
    expect(await live.proof(ended, ID, Date.now())).toEqual({ step: 'none', isOver: true });
    write('session_1', prompt(MAIL));
    expect(await live.proof(ended, ID, Date.now())).toEqual({ step: 'none', isOver: true });
    // Nothing is known about a session without a process.
    expect(await live.proof({ ...session, id: 'session_2' }, ID, Date.now())).toMatchObject({ step: 'accepted' });
  });
});

const line = (type: string, fields: object): string =>
  JSON.stringify({ type, agentId: 'main', ...fields, time: Date.now() });
const prompt = (text: string): string =>
  line('turn.prompt', { input: [{ type: 'text', text }], origin: { kind: 'user' }, promptId: 'msg_1', turnId: 0 });
const appended = (text: string): string =>
  line('context.append_message', {
    message: { role: 'user', content: [{ type: 'text', text }], origin: { kind: 'user' } },
  });
const asks = line('interaction.request', { id: 'approval_1', kind: 'approval', request: {} });

/** A home with Kimi, in which this process can hold one in the folder /work. */
function aHome(windows: ClientProcess[] = []) {
  const home = temporaryHome();
  const live = new KimiLive({ HOME: home }, () => [...windows]);
  const sessions = new HeldSessions(`${home}/.parley`);
  mkdirSync(sessions.folder, { recursive: true });
  const base: HeldSession = {
    v: 1,
    client: 'kimi',
    name: AgentName.parse('kimi.work'),
    folder: '/work',
    holder: OWN,
    program: OWN,
    startedAt: Date.now(),
    session: null,
    seen: 'starting',
  };
  const known = new Set<string>();
  const write = (session: string, ...lines: string[]): void => {
    const dir = `${home}/.kimi-code/sessions/${session}`;
    mkdirSync(`${dir}/agents/main`, { recursive: true });
    const entry = { sessionId: session, sessionDir: dir, workDir: '/work' };
    if (!known.has(session)) appendFileSync(`${home}/.kimi-code/session_index.jsonl`, `${JSON.stringify(entry)}\n`);
    const path = `${dir}/agents/main/wire.jsonl`;
    if (!known.has(session)) writeFileSync(path, `${line('metadata', { created_at: Date.now() })}\n`);
    known.add(session);
    appendFileSync(path, lines.map((one) => `${one}\n`).join(''));
  };
  const answer = (said: HolderAnswer): void => {
    const socket = { data: (one: Bun.Socket) => void one.write(`${JSON.stringify(said)}\n`) };
    opened.push(Bun.listen({ unix: sessions.socketOf(base), socket }));
  };
  return { home, live, write, answer, hold: (more: Partial<HeldSession>) => sessions.write({ ...base, ...more }) };
}
