import { afterEach, describe, expect, it } from 'bun:test';
import { chmodSync, existsSync, lstatSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { version } from '../../package.json';
import { ControlRig } from '../support/control-rig.ts';
import { within } from '../support/within.ts';

const rigs: ControlRig[] = [];
function aRig(...args: ConstructorParameters<typeof ControlRig>): ControlRig {
  const rig = new ControlRig(...args);
  rigs.push(rig);
  return rig;
}
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
});

describe('ccc listen', () => {
  it('makes the socket in the home, answers its first caller, and has the version of the program [CCC-1, CCC-2, CCC-7, CCC-22, CCC-26]', async () => {
    const rig = aRig();
    expect(existsSync(rig.socket)).toBe(false);
    await rig.listen();
    expect(lstatSync(rig.socket).mode & 0o777).toBe(0o600);
    expect(await rig.request({ cmd: 'ping' })).toMatchObject({ ok: true, version, sessions_active: 1 });
    expect((await rig.run('ccc', ['--version'])).out).toBe(`ccc ${version}\n`);
  });

  it.each(['SIGTERM', 'SIGINT'] as const)('removes the socket on %s [CCC-3]', async (signal) => {
    const rig = await aRig().listen();
    expect(await rig.end(signal)).toBe(0);
    expect(existsSync(rig.socket)).toBe(false);
  });

  it('never lets the socket be seen with another mode, whatever the umask [CCC-4]', async () => {
    const rig = aRig();
    const modes = new Set<number>();
    let isOver = false;
    const looking = (async () => {
      while (!isOver) {
        const stat = lstatSync(rig.socket, { throwIfNoEntry: false });
        if (stat) modes.add(stat.mode & 0o777);
        await Bun.sleep(0);
      }
    })();
    await rig.listen();
    await within(20_000, async () => modes.size > 0);
    await rig.end();
    isOver = true;
    await looking;
    expect([...modes]).toEqual([0o600]);
  });

  it('is refused while another one serves, which goes on [CCC-5]', async () => {
    const rig = await aRig().listen();
    const second = await rig.run('ccc', ['listen']);
    expect(second.code).toBe(1);
    expect(second.err).toMatch(/^error: a control server listens on .*\.ccc\.sock already \(pid \d+/);
    expect((await rig.request({ cmd: 'ping' })).ok).toBe(true);
    const third = await rig.run('parley', ['up', '--with', 'control']);
    expect([third.code, third.err]).toEqual([75, expect.stringContaining('already')]);
  });

  it('replaces the socket of a server that was killed [CCC-6]', async () => {
    const rig = await aRig().listen();
    await rig.end('SIGKILL');
    expect(existsSync(rig.socket)).toBe(true);
    await rig.listen();
    expect((await rig.request({ cmd: 'ping' })).ok).toBe(true);
  });

  it('works in a home that a group may write', async () => {
    const rig = aRig();
    chmodSync(rig.home, 0o775);
    await rig.listen();
    expect((await rig.request({ cmd: 'ping' })).ok).toBe(true);
  });

  it('answers ping without asking tmux or a client [CCC-25]', async () => {
    const rig = aRig();
    const bin = `${rig.home}/slow`;
    mkdirSync(bin);
    for (const name of ['tmux', 'ssh']) {
      writeFileSync(`${bin}/${name}`, '#!/bin/sh\nexec sleep 10\n');
      chmodSync(`${bin}/${name}`, 0o755);
    }
    await rig.listen({ PATH: `${bin}:${rig.claude.env['PATH']}` });
    const asking = rig.ask('api', 'never');
    const caller = await rig.caller();
    const took: number[] = [];
    for (let count = 0; count < 20; count++) {
      const began = performance.now();
      expect((await caller.ask({ cmd: 'ping' })).ok).toBe(true);
      took.push(performance.now() - began);
    }
    // Not the slowest: a busy machine delays some of them.
    expect(took.toSorted((a, b) => a - b)[took.length / 2]).toBeLessThan(50);
    void asking.catch(() => {});
  });

  it('says what is wrong with a file that it cannot read, and starts nothing', async () => {
    const rig = aRig();
    writeFileSync(`${rig.home}/.ccc.json`, '{"sessions":');
    const { code, err } = await rig.run('ccc', ['listen']);
    expect([code, err]).toEqual([1, expect.stringContaining('.ccc.json is not a JSON object')]);
    expect(existsSync(rig.socket)).toBe(false);
  });

  it('starts as quickly with 200 MB of earlier history [CCC-186, CCC-93]', async () => {
    const rig = aRig({ api: { topic_id: 7 } });
    const folder = `${rig.home}/.ccc/history/7/messages`;
    mkdirSync(folder, { recursive: true });
    const line = (id: number): string => `{"id":${id},"ts":1705412345,"from":"api","text":"${'x'.repeat(950)}"}\n`;
    for (let hour = 0; hour < 10; hour++) {
      const lines = Array.from({ length: 20_000 }, (_, at) => line(hour * 20_000 + at + 1)).join('');
      writeFileSync(`${folder}/2026-01-01-${String(hour).padStart(2, '0')}.jsonl`, lines);
    }
    await rig.listen();
    const { activity } = await rig.request({ cmd: 'activity' });
    expect(activity).toMatchObject([{ name: 'api', lastMessageId: 200_000 }]);
    const newest = await rig.history('api', { limit: 2 });
    expect(newest.map(({ id }) => id)).toEqual([199_999, 200_000]);
    const after = await rig.history('api', { after: 199_997, limit: 1 });
    expect(after.map(({ id }) => id)).toEqual([199_998]);
    const read = Number(/rchar: (\d+)/.exec(readFileSync(`/proc/${rig.server?.pid}/io`, 'utf8'))?.[1]);
    expect(read).toBeLessThan(200_000_000);
  });

  it('is in the daemon of `parley up`, too, and in `parley status`', async () => {
    const rig = aRig();
    const up = await rig.run('parley', ['up', '--with', 'control', '--detach']);
    expect([up.code, up.out]).toEqual([0, expect.stringContaining(`control on ${rig.socket}`)]);
    try {
      expect((await rig.request({ cmd: 'ping' })).ok).toBe(true);
      expect((await rig.run('parley', ['status'])).out).toMatch(/control on .* answers/);
    } finally {
      await rig.run('parley', ['down']);
    }
    expect(existsSync(rig.socket)).toBe(false);
    await rig.listen();
    expect((await rig.run('parley', ['status'])).out).toMatch(/^control of .*\n.*answers/);
  });
});

describe('sessions', () => {
  it('are made, listed and removed by commands, and a running server sees it [CCC-164, CCC-18]', async () => {
    const rig = await aRig({}).listen();
    mkdirSync(`${rig.home}/one`);
    mkdirSync(`${rig.home}/two`);
    const names = async (): Promise<unknown> =>
      ((await rig.request({ cmd: 'sessions' }))['sessions'] as { name: string }[]).map(({ name }) => name);
    expect((await rig.run('ccc', ['new', 'one', 'one'])).out).toBe(`new session one (${rig.home}/one)\n`);
    expect((await rig.run('parley', ['session', 'add', 'two'], { cwd: `${rig.home}/two` })).out).toContain('added two');
    expect(await names()).toEqual(['one', 'two']);
    expect((await rig.run('parley', ['session', 'list'])).out).toBe(
      `one  claude  ${rig.home}/one\ntwo  claude  ${rig.home}/two\n`,
    );
    expect((await rig.run('ccc', ['list'])).out).toContain('two');
    expect((await rig.run('ccc', ['kill', 'one'])).code).toBe(0);
    expect((await rig.run('parley', ['session', 'remove', 'two'])).code).toBe(0);
    expect(await names()).toEqual([]);
    await expect(rig.history('one')).rejects.toThrow('session not found');
    const again = await rig.run('ccc', ['kill', 'one']);
    expect([again.code, again.err]).toEqual([1, 'error: session not found\n']);
    await rig.run('ccc', ['new', 'one', 'one']);
    expect(await rig.history('one')).toEqual([]);
  });

  it('on a host that refuses are listed as stopped, and say why they cannot be reached [CCC-29, CCC-30, CCC-35]', async () => {
    const hosts = { msi: { address: 'ssh://127.0.0.1:1' } };
    const rig = aRig({ 'msi:backend': { path: '/far', host: 'msi' } }, { hosts });
    await rig.listen();
    expect((await rig.request({ cmd: 'sessions' }))['sessions']).toMatchObject([
      { name: 'msi:backend', host: 'msi', status: 'stopped', cwd: '/far' },
    ]);
    expect((await rig.ask('msi:backend', 'hello')).error).toStartWith('host unreachable: ');
    expect((await rig.request({ cmd: 'screenshot', session: 'msi:backend' })).error).toStartWith('host unreachable: ');
  });

  it('of a client that cannot be controlled say so [CCC-205]', async () => {
    const rig = await aRig({ api: { client: 'gemini' } }).listen();
    expect((await rig.ask('api', 'hello')).error).toBe(
      'failed to restart Gemini CLI: gemini cannot be controlled in this version',
    );
    await within(5000, async () => (await rig.history('api'))[0]?.status === 'failed');
  });
});

describe('what is not in this version', () => {
  it('ccc hosts says so in one line', async () => {
    const { code, err } = await aRig().run('ccc', ['hosts', 'x']);
    expect([code, err]).toEqual([1, expect.stringMatching(/^error: ccc .* is not in this version; .*\n$/)]);
  });
});
