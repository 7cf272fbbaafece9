import { afterEach, describe, expect, it } from 'bun:test';
import { lstatSync, readdirSync } from 'node:fs';
import { ControlCaller } from '../../../test/support/control-caller.ts';
import { ScriptedServer } from '../../../test/support/control-server.ts';
import { within } from '../../../test/support/within.ts';
import type { Connection } from '../../wire/connection.ts';
import { StatusStream } from './status-stream.ts';

const SESSIONS = { sessions: { api: { path: '/work/api' }, web: { path: '/work/web', topic_id: 7 } } };

const running: ScriptedServer[] = [];
async function serve(...args: Parameters<typeof ScriptedServer.start>): Promise<ScriptedServer> {
  const server = await ScriptedServer.start(...args);
  running.push(server);
  return server;
}
afterEach(async () => {
  for (const server of running.splice(0)) await server.close();
});

/** A script that answers when it is told to. */
function held(): { script: () => Promise<string>; answer: (text: string) => void } {
  const { promise, resolve } = Promise.withResolvers<string>();
  return { script: () => promise, answer: resolve };
}

describe('a connection to the control socket', () => {
  it('is a stream of lines on a socket that only its user may open [CCC-4, CCC-13]', async () => {
    const { home } = await serve(SESSIONS);
    const stat = lstatSync(`${home}/.ccc.sock`);
    expect(stat.isSocket()).toBe(true);
    expect(stat.mode & 0o777).toBe(0o600);
  });

  it('gets one answer per line, in order, however the lines are cut [CCC-14]', async () => {
    const caller = await (await serve(SESSIONS)).caller();
    caller.write('{"cmd":"ping"}\n{"cmd":"zzz"}\n{"cmd":');
    expect([(await caller.line()).ok, (await caller.line()).error]).toEqual([true, 'unknown command']);
    caller.write('"ses');
    caller.write('sions"}\n');
    expect((await caller.line())['sessions']).toBeArrayOfSize(2);
  });

  it('gets the answer to a long ask before that to the ping behind it [CCC-14]', async () => {
    const server = await serve(SESSIONS);
    const { script, answer } = held();
    server.control.scripts.set('api', script);
    const caller = await server.caller();
    caller.write('{"cmd":"ask","session":"api","text":"go"}\n{"cmd":"ping"}\n');
    await within(5000, async () => server.control.asked.length === 1);
    answer('done');
    expect((await caller.line())['response']).toBe('done');
    expect((await caller.line())['version']).toBe('1.2.3');
  });

  it('carries text byte for byte [CCC-15]', async () => {
    const server = await serve(SESSIONS);
    const text = 'é漢🙂\u2028 "quoted" \\ \t end';
    await server.ask({ cmd: 'ask', session: 'api', text });
    const { messages } = await server.ask({ cmd: 'history', session: 'api' });
    expect((messages as { text: string }[]).map((one) => one.text)).toEqual([text, `re: ${text}`]);
  });

  it('serves any number of requests [CCC-16]', async () => {
    const caller = await (await serve(SESSIONS)).caller();
    for (let count = 0; count < 100; count++) expect((await caller.ask({ cmd: 'ping' })).ok).toBe(true);
  });

  it('is one of many, and an ask that waits delays no other [CCC-17]', async () => {
    const server = await serve(SESSIONS);
    const { script, answer } = held();
    server.control.scripts.set('api', script);
    const asking = Promise.all(
      Array.from({ length: 50 }, () => server.ask({ cmd: 'ask', session: 'api', text: 'go' })),
    );
    await within(5000, async () => server.control.asked.length === 50);
    const pings = await Promise.all(Array.from({ length: 200 }, () => server.ask({ cmd: 'ping' })));
    expect(pings.filter(({ ok }) => ok)).toHaveLength(200);
    answer('done');
    expect((await asking).every((one) => one['response'] === 'done')).toBe(true);
  });

  it('gets an answer to a last line without an end, after it closed its side [CCC-19]', async () => {
    const caller = await (await serve(SESSIONS)).caller();
    caller.socket.end('{"cmd":"ping"}');
    expect(JSON.parse(await caller.rest())).toMatchObject({ ok: true });
  });

  it('gets every answer after it closed its side, then the server closes it [CCC-166]', async () => {
    const server = await serve(SESSIONS);
    const { script, answer } = held();
    server.control.scripts.set('api', script);
    const caller = await server.caller();
    caller.socket.end('{"cmd":"ask","session":"api","text":"go"}\n{"cmd":"ping"}\n');
    await within(5000, async () => server.control.asked.length === 1);
    answer('late');
    const lines = (await caller.rest()).trim().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as { ok: boolean }).ok)).toEqual([true, true]);
    await within(5000, async () => server.server.size === 0);
  });

  it('gets an answer of up to 16 KB in one piece [CCC-167]', async () => {
    const server = await serve(SESSIONS);
    server.control.scripts.set('api', async () => 'x'.repeat(16_000));
    for (let count = 0; count < 50; count++) {
      const caller = await server.caller();
      await caller.ask({ cmd: 'ask', session: 'api', text: 'go' });
      expect(caller.chunks).toHaveLength(1);
      caller.close();
    }
  });

  it('that goes away during an ask harms nobody, and the answer is in the history [CCC-50]', async () => {
    const server = await serve(SESSIONS);
    const { script, answer } = held();
    server.control.scripts.set('api', script);
    const caller = await server.caller();
    caller.write('{"cmd":"ask","session":"api","text":"go"}\n');
    await within(5000, async () => server.control.asked.length === 1);
    caller.close();
    await within(5000, async () => server.server.size === 0);
    answer('nobody heard it');
    const texts = async (): Promise<unknown> => {
      const { messages } = await server.ask({ cmd: 'history', session: 'api' });
      return (messages as { text: string }[]).map(({ text }) => text);
    };
    await within(5000, async () => JSON.stringify(await texts()) === '["go","nobody heard it"]');
  });
});

describe('limits of a request', () => {
  it('are 1 MiB of text and 4 MiB of line; above them nothing is stored [CCC-20]', async () => {
    const server = await serve(SESSIONS);
    const mebibyte = 1024 * 1024;
    const caller = await server.caller();
    const ask = (text: string): Promise<unknown> => caller.ask({ cmd: 'ask', session: 'api', text });
    expect(await ask('x'.repeat(70_000))).toMatchObject({ ok: true, response: `re: ${'x'.repeat(70_000)}` });
    expect(await ask('x'.repeat(mebibyte + 1))).toEqual({ ok: false, error: 'text too long (limit 1 MiB)' });
    expect((await server.ask({ cmd: 'history', session: 'api' }))['messages']).toBeArrayOfSize(2);
    expect(await ask('x'.repeat(mebibyte))).toMatchObject({ ok: true });
    caller.write(`{"cmd":"ask","session":"api","text":"${'x'.repeat(20_000_000)}"}\n`);
    expect(await caller.line()).toEqual({ ok: false, error: 'request too long (limit 4 MiB)' });
    await within(5000, async () => caller.isClosed);
    expect((await server.ask({ cmd: 'history', session: 'api' }))['messages']).toBeArrayOfSize(4);
  });

  const deep = (depth: number): string => `{"cmd":"ping","x":${'['.repeat(depth)}${']'.repeat(depth)}}`;
  it('keep the connection usable after whatever is no request [CCC-125, CCC-169]', async () => {
    const caller = await (await serve(SESSIONS)).caller();
    const bad: (string | Uint8Array)[] = [
      '{"cmd":"ping"',
      'ping',
      '[]',
      '"ping"',
      '7',
      'null',
      '{"cmd":7}',
      '{"cmd":["ping"]}',
      '{"cmd":"ask","session":7,"text":"x"}',
      '{"cmd":"ask","session":"api","text":{}}',
      '{"cmd":"ask","session":"api","text":"x","from":1}',
      '{"cmd":"ask","session":"api","text":"x","raw":"yes"}',
      '{"cmd":"history","session":"api","after":"5"}',
      '{"cmd":"history","session":"api","after":-5}',
      '{"cmd":"history","session":"api","after":1e300}',
      '{"cmd":"history","session":"api","after":1.5}',
      '{"cmd":"history","session":"api","limit":true}',
      '{"cmd":"screenshot","session":"api","limit":1e40}',
      '{"cmd":"answer","session":"api","question_index":"0","option_index":0}',
      '{"cmd":"answer","session":"api","question_index":-1,"option_index":99999999}',
      '{"cmd":"subscribe","sessions":"api"}',
      '{"cmd":"subscribe","sessions":[1]}',
      deep(20_000),
      new Uint8Array([...Buffer.from('{"cmd":"pi'), 0xff, 0xfe, ...Buffer.from('ng"}')]),
      new Uint8Array([0xef, 0xbb, 0xbf, ...Buffer.from('{"cmd":"ping"}')]),
    ];
    for (const line of bad) {
      caller.write(line);
      caller.write('\n');
      const answer = await caller.line();
      expect([line.slice(0, 60), answer.ok, typeof answer.error]).toEqual([line.slice(0, 60), false, 'string']);
      expect((await caller.ask({ cmd: 'ping' })).ok).toBe(true);
    }
    expect((await caller.ask(deep(100))).ok).toBe(true);
  });

  it('say invalid JSON for a line that is none [CCC-124, CCC-125]', async () => {
    const server = await serve(SESSIONS);
    expect(await server.ask('{nonsense')).toEqual({ ok: false, error: 'invalid JSON' });
  });

  it('cut off a caller that asks without end and never reads', async () => {
    const server = await serve(SESSIONS);
    server.control.scripts.set('api', held().script);
    const caller = await server.caller();
    caller.write('{"cmd":"ask","session":"api","text":"go"}\n');
    caller.write('{"cmd":"ping"}\n'.repeat(2000));
    await within(5000, async () => caller.isClosed);
    expect((await server.ask({ cmd: 'ping' })).ok).toBe(true);
  });
});

describe('subscribe', () => {
  it('names what is watched, then says the first status of each and every change [CCC-117, CCC-119, CCC-120]', async () => {
    const server = await serve(SESSIONS);
    server.control.states.set('api', { status: 'active' });
    const caller = await server.caller();
    caller.write('{"cmd":"subscribe","sessions":["api","web"]}\n');
    expect(await caller.line()).toEqual({ event: 'subscribed', session: 'api,web' });
    expect(await caller.line()).toEqual({ event: 'status', session: 'api', status: 'active' });
    expect(await caller.line()).toEqual({ event: 'status', session: 'web', status: 'stopped' });
    server.control.becomes('api', { status: 'active' });
    server.control.becomes('api', { status: 'idle' });
    expect(await caller.line()).toEqual({ event: 'status', session: 'api', status: 'idle' });
  });

  it('without names watches all, also those made later [CCC-117]', async () => {
    const server = await serve(SESSIONS);
    const caller = await server.caller();
    caller.write('{"cmd":"subscribe"}\n');
    expect(await caller.line()).toEqual({ event: 'subscribed', session: 'api,web' });
    server.control.becomes('later', { status: 'idle' });
    const events = [await caller.line(), await caller.line(), await caller.line()];
    expect(events.map(({ session }) => session)).toEqual(['api', 'web', 'later']);
  });

  it('with nothing configured is subscribed to nothing [CCC-123]', async () => {
    const caller = await (await serve()).caller();
    expect(await caller.ask({ cmd: 'subscribe' })).toEqual({ event: 'subscribed', session: '' });
  });

  it('echoes an unknown name, says that it is unknown, and reports it once it is made [CCC-118]', async () => {
    const server = await serve(SESSIONS);
    const caller = await server.caller();
    caller.write('{"cmd":"subscribe","sessions":["x"]}\n');
    expect(await caller.line()).toEqual({ event: 'subscribed', session: 'x' });
    expect(await caller.line()).toEqual({ event: 'error', session: 'x', error: 'session not found' });
    server.control.becomes('x', null);
    server.control.becomes('x', { status: 'idle' });
    expect(await caller.line()).toEqual({ event: 'status', session: 'x', status: 'idle' });
    server.control.becomes('x', null);
    expect(await caller.line()).toEqual({ event: 'status', session: 'x', status: 'stopped' });
  });

  it('says with a field that an idle session waits for a person [CCC-163]', async () => {
    const server = await serve(SESSIONS);
    server.control.states.set('api', { status: 'waiting', waitingFor: 'permission prompt' });
    const caller = await server.caller();
    caller.write('{"cmd":"subscribe","sessions":["api"]}\n');
    await caller.line();
    expect(await caller.line()).toEqual({
      event: 'status',
      session: 'api',
      status: 'idle',
      waiting_for: 'permission prompt',
    });
  });

  it('writes each event by itself, so that one read gives one event [CCC-119, CCC-121]', async () => {
    // At the writer: a reader that is late on a busy machine gets two writes in one read.
    const written: { text: string; at: number }[] = [];
    const write = (text: string): boolean => written.push({ text, at: performance.now() }) > 0;
    const stream = new StatusStream({ waiting: () => 0, write } as unknown as Connection);
    const names = Array.from({ length: 16 }, (_, at) => `s${at}`);
    stream.subscribed(names);
    for (const name of names) stream.show(name, { status: 'idle' });
    await within(10_000, async () => written.length === 17);
    stream.end();
    const sessions = written.map(({ text }) => (JSON.parse(text) as { session: string }).session);
    expect(sessions).toEqual([names.join(','), ...names]);
    for (const [at, { at: time }] of written.slice(1).entries())
      expect(time - (written[at]?.at ?? 0)).toBeGreaterThanOrEqual(10);
  });

  it('ignores further lines and a closed sending side; only the end of the connection ends it [CCC-168, CCC-122]', async () => {
    const server = await serve(SESSIONS);
    const caller = await server.caller();
    caller.write('{"cmd":"subscribe","sessions":["api"]}\n{"cmd":"ping"}\nnonsense\n');
    await caller.line();
    await caller.line();
    caller.write('{"cmd":"ping"}\n');
    caller.socket.end();
    await Bun.sleep(20);
    server.control.becomes('api', { status: 'active' });
    expect(await caller.line()).toEqual({ event: 'status', session: 'api', status: 'active' });
    caller.close();
    await within(5000, async () => server.server.size === 0 && server.control.watchers === 0);
  });

  it('leaves nothing behind after a thousand that came and went [CCC-122]', async () => {
    const server = await serve(SESSIONS);
    const before = openFiles();
    for (let count = 0; count < 1000; count++) {
      const caller = await ControlCaller.open(`${server.home}/.ccc.sock`);
      caller.write('{"cmd":"subscribe"}\n');
      if (count % 3 === 0) caller.socket.end();
      if (count % 2 === 0) await caller.line();
      caller.close();
    }
    await within(10_000, async () => server.server.size === 0 && server.control.watchers === 0);
    // Far fewer than a thousand: the files of a store come and go.
    await within(10_000, async () => openFiles() < before + 20);
  });

  it('keeps at most so many bytes for a subscriber that does not read, however many events come [CCC-204]', () => {
    const stalledBytes = 100_000;
    let isCut = false;
    const connection = { waiting: () => 1, write: () => true, cut: () => (isCut = true) } as unknown as Connection;
    const stream = new StatusStream(connection, { stalledBytes, stalledMs: 60_000 });
    let kept = 0;
    for (let count = 0; count < 10_000; count++) {
      const before = isCut;
      stream.show('api', { status: 'waiting', waitingFor: `${count} ${'x'.repeat(1000)}` });
      if (!before && !isCut) kept += 1000;
    }
    expect(isCut).toBe(true);
    expect(kept).toBeLessThanOrEqual(stalledBytes);
  });

  it('drops a subscriber that does not read, by bytes and by time [CCC-204]', async () => {
    const streamLimits = { stalledBytes: 20_000, stalledMs: 300 };
    const server = await serve(SESSIONS, { streamLimits });
    const waitingFor = 'x'.repeat(400_000);
    const stalled = await Promise.all(Array.from({ length: 20 }, () => server.caller()));
    for (const caller of stalled) {
      caller.socket.pause();
      caller.write('{"cmd":"subscribe","sessions":["api"]}\n');
    }
    await within(5000, async () => server.control.watchers === 20);
    for (let count = 0; count < 8; count++) {
      server.control.becomes('api', { status: 'waiting', waitingFor: `${count}${waitingFor}` });
      await Bun.sleep(15);
    }
    await within(10_000, async () => server.control.watchers === 0);
    expect((await server.ask({ cmd: 'ping' })).ok).toBe(true);
  });
});

/** Descriptors of this process; 0 where the system does not tell. */
function openFiles(): number {
  return process.platform === 'linux' ? readdirSync('/proc/self/fd').length : 0;
}
