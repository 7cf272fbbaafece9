import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { HookSession } from '../../src/protocols/c2c/hook-session.ts';
import { platform } from '../../src/platform/os.ts';
import { LoopMachine } from '../support/c2c-loops.ts';

let machine: LoopMachine;
beforeEach(async () => {
  machine = new LoopMachine();
  await machine.register('alice');
});
afterEach(() => machine.close());

interface Started {
  name: string;
  session_id: string;
  alias: string;
  pid: number;
  terminal: string;
}
interface Row extends Omit<Started, 'pid'> {
  status: string;
  alive: boolean;
  since: string;
  pid: number | null;
  loop: { kind: string; running: boolean; pid: number | null } | null;
}

async function start(name: string, more: string[] = [], client = 'codex'): Promise<Started> {
  return machine.json<Started>(['start', client, '-n', name, '--bin', machine.client, '--json', ...more]);
}

async function instances(): Promise<Row[]> {
  return machine.json<Row[]>(['instances']);
}

describe('a managed session', () => {
  it('is started in tmux with its session id and alias, registered with its process, and woken [C2C-39]', async () => {
    const { out } = await machine.c2c(['start', 'codex', '-n', 'bob', '--bin', machine.client, '--', '--model', 'x y']);
    expect(out).toMatch(/^started bob as bob \(pid \d+\); look at it with: tmux -L c2c-test-\w+ attach -t bob\n$/);
    await machine.until(() => machine.sign('bob') === 'idle');
    const [row] = await instances();
    expect(machine.noted('bob')[0]).toEqual({
      started: ['--no-daemon', '--model', 'x y'],
      pid: row?.pid as number,
      cwd: machine.home,
      env: {
        C2C_MCP_SESSION_ID: 'bob',
        C2C_MCP_AUTO_REGISTER_ALIAS: 'bob',
        C2C_INSTANCE_NAME: 'bob',
        C2C_MCP_BROKER_ROOT: machine.root,
        C2C_MCP_CLIENT_PID: String(row?.pid),
      },
    });
    expect(row).toMatchObject({ status: 'running', alive: true, loop: { kind: 'wake', running: true } });
    const listed = await machine.json<{ alias: string; alive: boolean }[]>(['list']);
    expect(listed.find(({ alias }) => alias === 'bob')).toMatchObject({ alive: true });
    await machine.send('bob', 'hello');
    await machine.until(() => machine.sent('bob').length > 0);
    expect(machine.sent('bob')).toEqual(['<c2c event="message_pending">poll mcp__c2c__poll_inbox</c2c>']);
  });

  it.each([
    ['codex', 'thread-1', ['resume', 'thread-1', '--no-daemon']],
    ['opencode', 'ses_1', ['--session', 'ses_1']],
    ['kimi', 'session_1', ['--session', 'session_1']],
    ['claude', 'my-branch', ['--resume', 'my-branch']],
    ['claude', '6e45bbe8-998c-4140-b77e-c6f117e6ca4b', ['--session-id', '6e45bbe8-998c-4140-b77e-c6f117e6ca4b']],
  ])('goes on with a conversation of the client: %s -s %s', async (client, id, words) => {
    const options = ['-n', 'bob', '-s', id, '--bin', machine.client, '--no-wake', '--json'];
    await machine.json<Started>(['start', client, ...options]);
    await machine.until(() => machine.noted('bob').length > 0);
    expect(machine.noted('bob')[0]).toMatchObject({ started: words, env: { C2C_MCP_SESSION_ID: 'bob' } });
  });

  it('is not started with a session that OpenCode does not have', async () => {
    const { code, err } = await machine.c2c(['start', 'opencode', '-s', 'ses_2', '--bin', machine.client]);
    expect([code, err]).toEqual([
      1,
      'error: session ses_2 was not found in this folder; see `opencode session list`\n',
    ]);
  });

  it('says at a restart in one line that its program is gone', async () => {
    const bin = `${machine.home}/opencode`;
    symlinkSync(machine.client, bin);
    await machine.json(['start', 'opencode', '-n', 'bob', '-s', 'ses_1', '--bin', bin, '--no-wake']);
    rmSync(bin);
    const { code, err } = await machine.c2c(['restart', 'bob']);
    expect([code, err]).toEqual([1, expect.stringMatching(/^error: the client ended at once; .*\n$/)]);
  });

  it.each([
    ['claude', 'opus', ['--model', 'opus']],
    ['claude', 'anthropic:opus', ['--model', 'opus']],
    ['codex', 'openai/gpt-5', ['--no-daemon', '--model', 'openai/gpt-5']],
    ['opencode', 'anthropic:opus', ['--model', 'anthropic/opus']],
    ['opencode', 'ollama/qwen:7b', ['--model', 'ollama/qwen:7b']],
  ])('is started with a model as users of the original write it: %s --model %s', async (client, model, words) => {
    await start('bob', ['--model', model, '--no-wake'], client);
    await machine.until(() => machine.noted('bob').length > 0);
    expect(machine.noted('bob')[0]).toMatchObject({ started: words });
  });

  it('is not started with half a model', async () => {
    const refused = async (client: string, model: string) =>
      (await machine.c2c(['start', client, '--model', model, '--bin', machine.client])).err;
    expect(await refused('opencode', 'opus')).toBe(
      "error: invalid --model for client 'opencode': write provider:model\n",
    );
    expect(await refused('kimi', 'moonshot:')).toBe("error: invalid --model for client 'kimi': empty model\n");
  });

  it('begins another conversation at a restart if Codex has lost the one before', async () => {
    const id = '6e45bbe8-998c-4140-b77e-c6f117e6ca4b';
    await start('bob', ['-s', id, '--no-wake']);
    await machine.until(() => machine.noted('bob').length > 0);
    await machine.json<Started>(['restart', 'bob']);
    const started = () => machine.noted('bob').flatMap((one) => ('started' in one ? [one.started] : []));
    await machine.until(() => started().length === 2);
    expect(started()).toEqual([['resume', id, '--no-daemon'], ['--no-daemon']]);
  });

  it('is woken as the doctor says, no matter who runs its loop [C2C-38]', async () => {
    await start('bob');
    expect((await machine.c2c(['doctor'])).out).toContain('session bob: codex: wake (primary), because a loop types');
  });

  it('whose client ends at once is no session: it is said how to find out why', async () => {
    const { code, err } = await machine.c2c(['start', 'codex', '-n', 'bob', '--bin', '/bin/true']);
    expect([code, err]).toEqual([
      1,
      'error: the client ended at once; run it by hand to see why: /bin/true --no-daemon\n',
    ]);
    expect((await machine.c2c(['instances'])).out).not.toContain('runs since');
  });

  it('keeps alias and session id over a restart, and its loop follows it [C2C-39]', async () => {
    const before = await start('bob', ['--alias', 'builder']);
    await machine.until(() => machine.sign('bob') === 'idle');
    const [loopBefore] = await instances();
    const after = await machine.json<Started>(['restart', 'bob']);
    expect(after).toMatchObject({ name: 'bob', session_id: before.session_id, alias: 'builder' });
    expect(after.pid).not.toBe(before.pid);
    expect(platform.processStart(before.pid)).toBeNull();
    const [row] = await instances();
    expect(row?.loop).toMatchObject({ running: true });
    expect(row?.loop?.pid).not.toBe(loopBefore?.loop?.pid);
    await machine.until(() => machine.noted('bob').filter(({ started }) => started).length === 2);
    await machine.send('builder', 'after the restart');
    await machine.until(() => machine.sent('bob').length > 0);
  });

  it.each([[[]], [['--pty']]])('is not taken for idle because a former run of it was %j [C2C-32]', async (how) => {
    const silent = `${machine.home}/bin/silent`;
    writeFileSync(silent, '#!/bin/sh\nexec sleep 600\n', { mode: 0o755 });
    const start = ['start', 'codex', '-n', 'bob', '--bin', silent, ...how];
    await machine.json(start);
    // A thread of it said that it is idle, and was killed.
    HookSession.open(`${machine.data}/sessions`, 'thread-1')?.bind({
      root: machine.root,
      sessionId: 'bob',
      sure: true,
    });
    mkdirSync(`${machine.data}/signs`, { recursive: true });
    for (const name of ['thread-1', 'thread-2'])
      writeFileSync(`${machine.data}/signs/${name}`, `idle ${Math.floor(Date.now() / 1000)}\n`);
    await machine.json(['restart', 'bob', '--timeout', '0']);
    // What another session says of itself stays.
    expect(readdirSync(`${machine.data}/signs`)).toEqual(['thread-2']);
  });

  it('ends with its loop when it is stopped; its mail is kept [C2C-39]', async () => {
    const { pid } = await start('bob');
    expect(await machine.json<object>(['stop', 'bob'])).toEqual({ ok: true, name: 'bob', status: 'stopped' });
    expect(platform.processStart(pid)).toBeNull();
    expect(await instances()).toMatchObject([{ status: 'stopped', pid: null, loop: { running: false } }]);
    expect(existsSync(`${machine.data}/loops/run/bob.pid`)).toBe(false);
    await machine.send('bob', 'for later');
    expect(await machine.json<object>(['stop', 'bob'])).toMatchObject({ status: 'not running' });
    await machine.json(['restart', 'bob']);
    await machine.until(() => machine.sent('bob').length > 0);
  });

  it('whose client ends by itself is not woken any more, and its loop ends', async () => {
    const { pid } = await start('bob');
    await machine.until(() => machine.sign('bob') === 'idle');
    process.kill(pid, 'SIGKILL');
    await machine.until(() => !existsSync(`${machine.data}/loops/run/bob.pid`));
    expect(await instances()).toMatchObject([{ status: 'stopped', loop: { running: false } }]);
  });

  it('is looped by the daemon where that keeps loops', async () => {
    const { child: up } = machine.spawn('parley', ['up', '--with', 'loops']);
    await machine.until(() => existsSync(`${machine.home}/.parley/daemon.json`));
    await machine.until(() => readFileSync(`${machine.home}/.parley/daemon.json`, 'utf8').includes('loops'));
    await start('bob');
    expect(await instances()).toMatchObject([{ loop: { running: true, pid: up.pid } }]);
    await machine.json(['restart', 'bob']);
    expect(await instances()).toMatchObject([{ loop: { running: true, pid: up.pid } }]);
    await machine.json(['stop', 'bob']);
    expect((await machine.parley(['status'])).out).not.toContain('wake bob');
    expect(up.exitCode).toBeNull();
  });

  it('can have a terminal that we hold ourselves, with the same rights [C2C-39]', async () => {
    const before = await start('bob', ['--pty']);
    await machine.until(() => machine.sign('bob') === 'idle');
    expect(before.terminal).toBe(`pty ${before.pid}`);
    expect(machine.noted('bob')[0]).toMatchObject({ pid: before.pid, env: { C2C_MCP_SESSION_ID: 'bob' } });
    await machine.send('bob', 'hello');
    await machine.until(() => machine.sent('bob').length === 1);
    const after = await machine.json<Started>(['restart', 'bob']);
    expect(after).toMatchObject({ session_id: 'bob', alias: 'bob', terminal: `pty ${after.pid}` });
    expect(platform.processStart(before.pid)).toBeNull();
    expect(await instances()).toMatchObject([{ alive: true, pid: after.pid, loop: { running: true } }]);
    expect(await machine.json<object>(['stop', 'bob'])).toMatchObject({ status: 'stopped' });
    expect(platform.processStart(after.pid)).toBeNull();
    expect(await instances()).toMatchObject([{ alive: false, loop: { running: false } }]);
  });

  it('that is started at a terminal is seen and typed to there, and woken all the same', async () => {
    const { child, shown } = machine.atTerminal(['start', 'codex', '-n', 'bob', '--pty', '--bin', machine.client]);
    await machine.until(() => machine.sign('bob') === 'idle' && shown().includes('scripted client'));
    await machine.until(() => existsSync(`${machine.data}/loops/run/bob.pid`));
    child.terminal?.write('from a person\r');
    await machine.until(() => machine.sent('bob').includes('from a person'));
    await machine.send('bob', 'hello');
    await machine.until(() => machine.sent('bob').length === 2);
    const [row] = await instances();
    const size = () =>
      Bun.spawnSync(['stty', '-F', readlinkSync(`/proc/${row?.pid}/fd/0`), 'size'])
        .stdout.toString()
        .trim();
    expect(size()).toBe('30 100');
    child.terminal?.resize(90, 20);
    await machine.until(() => size() === '20 90');
    await machine.json(['stop', 'bob']);
    expect(await child.exited).toBe(0);
  });

  it.each([[[]], [['--pty']]])('is started once by many who start it at the same moment %j', async (how) => {
    const words = ['start', 'codex', '-n', 'bob', '--bin', machine.client, ...how];
    const runs = await Promise.all([1, 2, 3].map(async () => machine.c2c(words)));
    expect(runs.filter(({ code }) => code === 0)).toHaveLength(1);
    await machine.until(() => machine.noted('bob').length > 0);
    expect(machine.noted('bob').filter(({ started }) => started)).toHaveLength(1);
    expect(await instances()).toMatchObject([{ name: 'bob', alive: true, loop: { running: true } }]);
    await machine.json(['stop', 'bob']);
  });

  it('is not started twice, nor under the alias of another that lives, nor from inside of one', async () => {
    const { pid } = await start('bob');
    const refused = async (words: string[], env = {}): Promise<string> => {
      const { err, code } = await machine.c2c(['start', 'codex', '--bin', machine.client, ...words], env);
      expect(code).toBe(1);
      return err;
    };
    expect(await refused(['-n', 'bob'])).toContain(`bob runs already (pid ${pid})`);
    expect(await refused(['-n', 'carol', '--alias', 'BOB'])).toContain('is the alias of a running session');
    expect(await refused(['-n', 'carol'], { C2C_INSTANCE_NAME: 'bob' })).toContain('this is a managed session');
    expect(await refused(['-n', '../../etc'])).toContain('is not a valid name');
    expect((await machine.c2c(['stop', 'bob'], { C2C_INSTANCE_NAME: 'bob' })).err).toContain(
      'a session cannot stop itself',
    );
    expect(await instances()).toHaveLength(1);
    expect((await machine.c2c(['start', 'emacs'])).err).toContain(
      'no client is called "emacs"; there is claude, codex',
    );
    expect((await machine.c2c(['stop', 'nobody'])).err).toContain('no instance is called "nobody"; there is bob');
  });
});
