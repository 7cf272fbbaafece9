import { afterEach, describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { until } from '../support/bch.ts';
import { Caller } from '../support/caller.ts';
import { listening, RelayMachine } from '../support/relay.ts';
import { PARLEY } from '../support/program.ts';

let machine = new RelayMachine();
afterEach(async () => {
  await machine.endAll();
  machine = new RelayMachine();
});

describe('`parley relay`', () => {
  it('listens on this machine only, answers, and ends with 0 when it is told to [BC-B5.1]', async () => {
    const { running, url } = await machine.relay();
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/);
    expect(await (await fetch(`${url}v1/health`)).json()).toEqual({ ok: true, service: 'backchannel-relay' });
    const ended = await running.stop();
    expect(ended.code).toBe(0);
    expect(existsSync(`${machine.root}/relay.json`)).toBe(false);
  });

  it('says where its default room is: the home itself, or the folder that a home of the original has', async () => {
    const first = await machine.relay();
    expect(first.running.out).toContain(`home ${machine.root}; default room in the home itself`);
    await first.running.stop();
    mkdirSync(`${machine.root}/rooms/default`, { recursive: true });
    const second = await machine.relay();
    expect(second.running.out).toContain(`default room in ${machine.root}/rooms/default`);
    const alice = await Caller.register(second.url, 'alice');
    expect((await alice.get('agents')).status).toBe(200);
    expect(existsSync(`${machine.root}/rooms/default/agents/alice.json`)).toBe(true);
  });

  it('is one per home: a second one is told who runs and where', async () => {
    const { running, url } = await machine.relay();
    const second = machine.run('parley', ['relay', '--port', '0']);
    await second.ended();
    expect(second.run()).toMatchObject({ code: 75, out: '' });
    expect(second.err).toContain(`runs already: ${url} (pid ${running.child.pid}`);
    expect((await fetch(`${url}v1/health`)).status).toBe(200);
  });

  it('after a kill -9 starts again, and everything that was accepted is there [BC-8]', async () => {
    const { running, url } = await machine.relay();
    const [alice] = [await Caller.register(url, 'alice'), await Caller.register(url, 'bob')];
    const sent = await Promise.all(Array.from({ length: 50 }, (_, n) => alice.send('@bob', `message ${n}`)));
    const ids = sent.map(({ id }) => id);
    running.child.kill('SIGKILL');
    await running.ended();
    expect(existsSync(`${machine.root}/relay.json`)).toBe(true);
    const again = await machine.relay();
    await until('a file for each', () => machine.waiting('bob').length === ids.length);
    expect(machine.waiting('bob').sort()).toEqual([...ids].sort());
    expect((await again.running.stop()).code).toBe(0);
  });

  it('after a kill -9 finishes the files of every room, also of those that nobody comes to', async () => {
    const { running, url } = await machine.relay();
    const { roomId, roomToken } = (await (await fetch(`${url}v1/rooms`, { method: 'POST' })).json()) as {
      roomId: string;
      roomToken: string;
    };
    const inRoom = { 'x-backchannel-room': roomId, 'content-type': 'application/json' };
    const ask = async (path: string, token: string, body: unknown): Promise<Record<string, string>> => {
      const headers = { ...inRoom, authorization: `Bearer ${token}` };
      const answer = await fetch(`${url}v1/${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
      return (await answer.json()) as Record<string, string>;
    };
    const { token = '' } = await ask('register', roomToken, { name: 'bob' });
    const sent = await Promise.all(
      Array.from({ length: 50 }, (_, n) => ask('send', token, { to: '@bob', body: `message ${n}` })),
    );
    running.child.kill('SIGKILL');
    await running.ended();
    await machine.relay();
    const folder = `${machine.root}/rooms/${roomId}/spool/bob/new`;
    await until('a file for each', () => existsSync(folder) && readdirSync(folder).length === sent.length);
    expect(readdirSync(folder).sort()).toEqual(sent.map(({ id }) => `${id}.json`).sort());
  });

  it('told to end in the middle of traffic, leaves a file for every message that it has answered [BC-8]', async () => {
    const { running, url } = await machine.relay();
    const [alice, bob] = [await Caller.register(url, 'alice'), await Caller.register(url, 'bob')];
    const accepted: string[] = [];
    const listener = await bob.get('events/bob');
    const writers = Array.from({ length: 16 }, async (_, writer) => {
      for (let n = 0; ; n += 1) accepted.push((await alice.send('@bob', `${writer}: ${n}`)).id);
    });
    const stopped = Promise.allSettled(writers);
    await until('traffic', () => accepted.length > 200);
    const ended = await running.stop();
    await stopped;
    // The stream ends with the relay: a listener does not keep it.
    await listener.text();
    expect(ended.code).toBe(0);
    const there = new Set(machine.waiting('bob'));
    expect(accepted.filter((id) => !there.has(id))).toEqual([]);
  });

  it('notes in its log what went wrong where nobody waits for an answer, without the mail', async () => {
    const { running, url } = await machine.relay();
    const [alice] = [await Caller.register(url, 'alice'), await Caller.register(url, 'bob')];
    // Bob's mail is accepted, and cannot be filed: a file stands where the folder was.
    rmSync(`${machine.root}/spool/bob`, { recursive: true });
    writeFileSync(`${machine.root}/spool/bob`, '');
    await alice.send('@bob', 'a secret');
    await running.complains('trouble room=default error=');
    expect(running.err).not.toContain('a secret');
  });

  it('ends at once at a second signal, whatever it still has in hand', async () => {
    const { running, url } = await machine.relay();
    const alice = await Caller.register(url, 'alice');
    // A sender that stops in the middle of its request.
    let more: (bytes: string) => void = () => {};
    const half = new ReadableStream<string>({ start: (body) => (more = (bytes) => body.enqueue(bytes)) });
    const stalled = fetch(`${url}v1/send`, {
      method: 'POST',
      body: half.pipeThrough(new TextEncoderStream()),
      headers: { authorization: `Bearer ${alice.token}` },
    }).catch(() => null);
    more('{"to":"@alice",');
    await fetch(`${url}v1/health`);
    running.child.kill('SIGTERM');
    await running.complains('finishing');
    running.child.kill('SIGTERM');
    await running.ended();
    // Had it waited for what it has in hand, it would have ended with 0.
    expect(running.child.exitCode).toBe(143);
    await stalled;
  });

  it('tells how many files it may have open, and that is so', async () => {
    const { running } = await machine.relay();
    const [, told] = /up to (\d+) open files/.exec(running.out) ?? [];
    const limits = readFileSync(`/proc/${running.child.pid}/limits`, 'utf8');
    const [, soft] = /^Max open files\s+(\d+)/m.exec(limits) ?? [];
    expect(told).toBe(soft ?? 'unknown');
    expect(running.err.includes('warning: the system allows only')).toBe(Number(soft) < 4096);
  });

  it('warns where the system allows only few open files', async () => {
    // Nobody may raise it again: neither this account nor, without that right, root.
    const few = ['sh', '-c', 'ulimit -n 300; exec "$0" "$@"', PARLEY, 'relay', '--port', '0'];
    const child = Bun.spawn(few, { env: machine.env(), cwd: machine.program.home, stdout: 'pipe', stderr: 'pipe' });
    let said = '';
    for await (const bytes of child.stdout) if ((said += new TextDecoder().decode(bytes)).includes('open files')) break;
    child.kill('SIGTERM');
    const told = Number(/up to (\d+) open files/.exec(said)?.[1]);
    expect((await new Response(child.stderr).text()).includes(`the system allows only ${told} open files`)).toBe(
      told < 4096,
    );
    expect(await child.exited).toBe(0);
  });

  it.each([
    [['--host', '0.0.0.0'], 'a relay on 0.0.0.0 without a room token would let anybody in'],
    [['--public', 'https://relay.example.org'], 'a relay on https://relay.example.org without a room token'],
    [['--tls-cert', 'none.pem', '--tls-key', 'none.key'], 'none.pem cannot be read (ENOENT)'],
    [['--port', '99999'], '"99999" is not a port'],
    [['--room', 'x'], '--room belongs to `parley relay token`'],
    [['serve'], 'usage: parley relay'],
  ])('refuses %j in one line', async (args, told) => {
    const { out, err, code } = await machine.program.run(['relay', ...args]);
    expect({ out, lines: err.trimEnd().split('\n').length }).toEqual({ out: '', lines: 1 });
    expect(code).not.toBe(0);
    expect(err).toContain(told);
    expect(existsSync(`${machine.root}/relay.json`)).toBe(false);
  });

  it('refuses a port that another program has, and leaves nothing behind', async () => {
    using other = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('other') });
    const { err, code } = await machine.program.run(['relay', '--port', String(other.port)]);
    expect(code).toBe(75);
    expect(err).toBe(`parley: port ${other.port} on 127.0.0.1 is in use by another program; choose another --port\n`);
    expect(existsSync(`${machine.root}/relay.json`)).toBe(false);
  });

  it('logs as JSON lines if told to, never a token', async () => {
    const token = 'secret-room-token-0123456789';
    const { running, url } = await machine.relay(['--json-logs'], { env: { BACKCHANNEL_TOKEN: token } });
    const { token: own } = await Caller.register(url, 'alice', token);
    await running.stop();
    const lines = running.err.trimEnd().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as { event: string }).event)).toContain('relay_open');
    expect(running.err + running.out).not.toContain(token);
    expect(running.err + running.out).not.toContain(own);
  });
});

describe('`bch relay`', () => {
  it('says where it listens in the words of the original [BC-B7.29, BC-B7.13, BC-B5.20]', async () => {
    const running = machine.run('bch', ['relay', '--port', '0', '--token', 'room-token']);
    const url = await listening(running);
    expect(running.out).toBe(`backchannel relay listening on ${url}\n`);
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/);
    expect(url).not.toContain(':7117/');
    expect((await new Caller(url, 'wrong').post('register', { name: 'alice' })).status).toBe(401);
    expect((await new Caller(url, 'room-token').post('register', { name: 'alice' })).status).toBe(200);
    expect((await running.stop()).code).toBe(0);
  });

  it('takes its tokens from the environment [BC-B7.46, BC-B7.48, BC-B5.20]', async () => {
    const env = { BACKCHANNEL_TOKEN: 'room-token', BACKCHANNEL_ADMIN_TOKEN: 'admin-token' };
    const url = await listening(machine.run('bch', ['relay', '--port', '0'], { env }));
    expect((await new Caller(url, '').post('register', { name: 'alice' })).status).toBe(401);
    expect((await new Caller(url, 'room-token').post('register', { name: 'alice' })).status).toBe(200);
    expect((await new Caller(url, '').post('rooms', {})).status).toBe(401);
    expect((await new Caller(url, 'admin-token').post('rooms', {})).status).toBe(200);
  });

  it('refuses what the original would do in silence: to be open to everybody', async () => {
    const told = await machine.error(['relay', '--port', '0', '--host', '0.0.0.0']);
    expect(told).toContain('without a room token would let anybody in');
  });
});
