import { afterEach, describe, expect, it } from 'bun:test';
import { existsSync, readFileSync, rmSync, statSync } from 'node:fs';
import { isProcessAlive } from '../../src/platform/process.ts';
import { until } from '../support/bch.ts';
import type { Running } from '../support/bch.ts';
import { Caller } from '../support/caller.ts';
import { Program } from '../support/program.ts';
import { RelayMachine } from '../support/relay.ts';

let machine = new RelayMachine();
afterEach(async () => {
  await machine.endAll();
  machine = new RelayMachine();
});

interface Told {
  running: { what: string; pid: number; doors: { name: string; address: string; answers: boolean }[] }[];
}
interface Notice {
  pid: number;
  doors: { name: string; address: string }[];
}

const UP = ['up', '--with', 'relay', '--port', '0'];

/** `parley up` in the foreground, once every service is open. */
async function up(args: string[] = []): Promise<Running> {
  const running = machine.run('parley', [...UP, ...args]);
  await until('the services', () => /relay on http\S+\n/.test(running.out) || running.child.exitCode !== null);
  return running;
}

function notice(): Notice {
  return JSON.parse(readFileSync(`${machine.program.home}/.parley/daemon.json`, 'utf8')) as Notice;
}

async function status(): Promise<Told & { code: number }> {
  const { out, code } = await machine.program.run(['status', '--json']);
  return { ...(JSON.parse(out) as Told), code };
}

describe('the daemon', () => {
  it('keeps its services open, is seen by status, and goes when it is told', async () => {
    const running = await up();
    expect(running.out).toContain(`up in ${machine.program.home}/.parley (pid ${running.child.pid})`);
    const [door] = notice().doors;
    expect(statSync(`${machine.program.home}/.parley/daemon.json`).mode & 0o777).toBe(0o600);
    expect(await status()).toMatchObject({
      code: 0,
      running: [{ what: 'daemon', pid: running.child.pid, doors: [{ ...door, answers: true }, { name: 'follow' }] }],
    });
    const down = await machine.program.run(['down']);
    expect(down.code).toBe(0);
    expect(down.out).toMatch(/^down after \d+\.\d s: relay on http\S+, follow on \S+ \(pid \d+\)\n$/);
    await running.ended();
    expect(running.child.exitCode).toBe(0);
    expect(existsSync(`${machine.program.home}/.parley/daemon.json`)).toBe(false);
    expect((await status()).code).toBe(3);
  });

  it('is one per home: a second one is told who runs and where', async () => {
    const running = await up();
    const [door] = notice().doors;
    const second = await machine.program.run(UP);
    expect(second).toMatchObject({ code: 75, out: '' });
    expect(second.err).toContain(`runs already (pid ${running.child.pid}, since `);
    expect(second.err).toContain(`relay on ${door?.address}`);
    const relay = await machine.program.run(['relay', '--port', '0']);
    expect(relay.err).toContain(`runs already: ${door?.address}`);
  });

  it('in the background is there when the command returns, tells where its log is, and can be wished for twice', async () => {
    const first = await machine.program.run([...UP, '--detach', '--token', 'a-room-token-of-its-own']);
    expect(first.code).toBe(0);
    expect(first.err).toMatch(/^warning: .* --token in the process list; .*\n$/);
    expect(first.out).toContain(`log: ${machine.program.home}/.parley/daemon.log`);
    const { pid, doors } = notice();
    const url = doors[0]?.address ?? '';
    expect((await Caller.register(url, 'alice', 'a-room-token-of-its-own')).token).toHaveLength(64);
    // Everybody can read the words of a running program: no secret is among them.
    expect(readFileSync(`/proc/${pid}/cmdline`, 'utf8')).not.toContain('a-room-token-of-its-own');
    const again = await machine.program.run([...UP, '--detach']);
    expect(again).toMatchObject({ code: 0 });
    expect(again.err).toContain('it was already running');
    expect(notice().pid).toBe(pid);
    const down = await machine.program.run(['down', '--json']);
    expect(JSON.parse(down.out)).toMatchObject({ was: { pid } });
    expect(machine.isRunning(pid)).toBe(false);
    expect(readFileSync(`${machine.program.home}/.parley/daemon.log`, 'utf8')).toContain('stopped');
  });

  it('that cannot start in the background says why, with the exit code of that reason', async () => {
    using other = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('other') });
    const run = await machine.program.run(['up', '--with', 'relay', '--port', String(other.port), '--detach']);
    expect(run).toMatchObject({ code: 75, out: '' });
    expect(run.err).toContain(`the daemon did not start: port ${other.port} on 127.0.0.1 is in use`);
    expect(existsSync(`${machine.program.home}/.parley/daemon.json`)).toBe(false);
  });

  it('killed with -9 is no obstacle to the next', async () => {
    const first = await up();
    first.child.kill('SIGKILL');
    await first.ended();
    expect(existsSync(`${machine.program.home}/.parley/daemon.json`)).toBe(true);
    expect((await status()).code).toBe(3);
    const down = await machine.program.run(['down']);
    expect(down).toMatchObject({ code: 0, out: `nothing runs in ${machine.program.home}/.parley\n` });
    const second = await up();
    expect(notice().pid).toBe(second.child.pid);
    expect((await status()).code).toBe(0);
  });

  it('that does not answer is seen as such', async () => {
    const running = await up();
    running.child.kill('SIGSTOP');
    const { code, running: seen } = await status();
    running.child.kill('SIGCONT');
    expect(code).toBe(1);
    expect(seen[0]?.doors[0]?.answers).toBe(false);
  });

  it('that takes long to end is waited for, and down says for what', async () => {
    const running = await up();
    const url = notice().doors[0]?.address ?? '';
    const alice = await Caller.register(url, 'alice');
    // A sender in the middle of its request keeps the relay from ending for a moment.
    let body: ReadableStreamDefaultController<string> | undefined;
    const half = new ReadableStream<string>({ start: (controller) => void (body = controller) });
    const sending = fetch(`${url}v1/send`, {
      method: 'POST',
      body: half.pipeThrough(new TextEncoderStream()),
      headers: { authorization: `Bearer ${alice.token}` },
    });
    body?.enqueue('{"to":"@alice",');
    await fetch(`${url}v1/health`);
    const down = machine.run('parley', ['down']);
    await down.complains('waiting for relay: open requests');
    body?.enqueue('"body":"just in time"}');
    body?.close();
    expect((await sending).status).toBe(200);
    await down.ended();
    expect(down.out).toContain('down after');
    await running.ended();
    expect(machine.waiting('alice')).toHaveLength(1);
  });

  it('follows the running sessions, with or without other services, and a follower makes room for more', async () => {
    const alone = await machine.program.run(['up', '--detach']);
    expect(alone).toMatchObject({ code: 0, err: '' });
    expect(notice().doors).toMatchObject([{ name: 'follow' }]);
    const before = notice().pid;
    const more = await machine.program.run([...UP, '--detach']);
    expect(more).toMatchObject({ code: 0, err: '' });
    expect(notice().doors.map(({ name }) => name)).toEqual(['relay', 'follow']);
    expect(notice().pid).not.toBe(before);
    expect((await machine.program.run(['down'])).code).toBe(0);
  });

  it('that was started for sessions ends when its home is deleted', async () => {
    expect((await machine.program.run(['up', '--ends-when-idle', '--detach'])).code).toBe(0);
    const { pid } = notice();
    rmSync(`${machine.program.home}/.parley`, { recursive: true });
    await until('its end', () => !isProcessAlive(pid));
  }, 70_000);

  it('is ended by a purge if it only follows, and otherwise keeps its home from being deleted', async () => {
    const program = new Program();
    const { pid } = await program.json<{ pid: number }>(['up', '--detach']);
    expect((await program.run(['self', 'uninstall', '--purge', '--yes'])).code).toBe(0);
    expect(isProcessAlive(pid)).toBe(false);
    expect(existsSync(`${program.home}/.parley`)).toBe(false);
    await program.run(['up', '--with', 'outbox', '--detach']);
    const refused = await program.run(['self', 'uninstall', '--purge', '--yes']);
    expect(refused.err).toContain('end it first: parley down');
    expect((await program.run(['down'])).code).toBe(0);
  });

  it.each([
    [['up', '--with', 'rely'], 'did you mean --with relay?'],
    [['up', '--with', 'relay', '--host', '0.0.0.0'], 'without a room token would let anybody in'],
    [['down', '--patience', 'soon'], '"soon" is not a span of time'],
  ])('refuses %j in one line', async (args, told) => {
    const { out, err, code } = await machine.program.run(args);
    expect({ out, lines: err.trimEnd().split('\n').length }).toEqual({ out: '', lines: 1 });
    expect(code).toBe(64);
    expect(err).toContain(told);
  });

  it('with the outbox sends what could not be sent, when the relay is back', async () => {
    const remote = new RelayMachine();
    try {
      const { running, url } = await remote.relay();
      const { port } = new URL(url);
      await machine.program.run(['init', 'alice', '--url', url]);
      await running.stop();
      const send = await machine.program.run(['send', '@alice', 'when you are back'], { as: 'alice' });
      expect(send.err).toContain('queued');
      const daemon = machine.run('parley', ['up', '--with', 'outbox']);
      await until('the daemon', () => daemon.out.includes('outbox on'));
      const again = remote.run('parley', ['relay', '--port', port]);
      await until('the relay', () => again.out.includes('listening on'));
      await daemon.complains('outbox_sent');
      await until('its file', () => remote.waiting('alice').length === 1);
      expect((await status()).code).toBe(0);
      expect((await daemon.stop()).code).toBe(0);
    } finally {
      await remote.endAll();
    }
  });

  it('and a relay that runs by itself are told apart', async () => {
    const { running } = await machine.relay();
    expect((await status()).running).toMatchObject([{ what: 'relay', pid: running.child.pid }]);
    const down = await machine.program.run(['down']);
    expect(down.out).toContain('nothing runs in');
    expect(down.err).toContain(`a relay runs without the daemon (pid ${running.child.pid})`);
    expect(machine.isRunning(running.child.pid)).toBe(true);
  });
});
