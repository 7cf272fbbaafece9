// The programs of examples/control, as they are, against a server with the stand-in for Claude Code.
import { afterEach, describe, expect, it } from 'bun:test';
import { cpSync } from 'node:fs';
import { ControlRig } from '../support/control-rig.ts';
import { within } from '../support/within.ts';

const EXAMPLES = new URL('../../examples/control/', import.meta.url).pathname;
// A program that is not installed cannot be tried.
const has = (...programs: string[]): boolean => programs.every((one) => Bun.which(one) !== null);
const withNc = has('nc', 'setsid') ? it : it.skip;
const withSocat = has('socat') ? it : it.skip;
const withBoth = has('nc', 'socat', 'setsid') ? it : it.skip;
const withPython = has('python3') ? it : it.skip;
const withGo = has('go') ? it : it.skip;

const rigs: ControlRig[] = [];
async function aServer(): Promise<ControlRig> {
  const rig = new ControlRig({ myproject: {} });
  rigs.push(rig);
  cpSync(EXAMPLES, `${rig.home}/examples`, { recursive: true });
  return rig.listen();
}
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
});

/** The first line that a program prints. nc waits for its whole -q, whatever the server does: it is not waited for. */
async function firstLine(rig: ControlRig, words: string[]): Promise<Record<string, unknown>> {
  const child = Bun.spawn(['setsid', ...words], {
    cwd: `${rig.home}/examples`,
    env: rig.claude.env,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'inherit',
  });
  let said = '';
  for await (const chunk of child.stdout) {
    said += Buffer.from(chunk).toString();
    if (said.includes('\n')) break;
  }
  process.kill(-child.pid, 'SIGTERM');
  await child.exited;
  return JSON.parse(said) as Record<string, unknown>;
}

const python = async (rig: ControlRig, args: string[], env: object = {}): Promise<string> => {
  const { out, err, code } = await rig.program(['python3', ...args], { cwd: `${rig.home}/examples`, env });
  expect([err, code]).toEqual(['', 0]);
  return out;
};

describe('the examples', () => {
  withNc('in shell with nc run as written [CCC-145, CCC-166]', async () => {
    const rig = await aServer();
    const nc = (what: string): Promise<Record<string, unknown>> => firstLine(rig, ['sh', 'nc.sh', what]);
    expect(await nc('ping')).toMatchObject({ ok: true, sessions_active: 1 });
    expect(await nc('sessions')).toMatchObject({ ok: true, sessions: [{ name: 'myproject' }] });
    expect(await nc('ask')).toMatchObject({ ok: true, response: 're: Hello' });
    expect(await nc('send')).toMatchObject({ ok: true });
    await rig.claude.prompted(2);
    await within(20_000, async () => (await rig.history('myproject')).length === 4);
    expect(await nc('continue')).toEqual({ ok: true });
    expect((await nc('history'))['messages']).toBeArrayOfSize(4);
    expect((await nc('replies'))['messages']).toBeArrayOfSize(2);
    expect(await nc('activity')).toMatchObject({ activity: [{ name: 'myproject', lastText: 're: Run tests' }] });
    expect((await nc('screenshot'))['ok']).toBe(true);
    expect(await nc('questions')).toEqual({ ok: true });
    expect((await nc('answer'))['error']).toBe('no pending questions for this session');
  });

  withNc('of a CI job runs as written, with and without a line feed [CCC-150, CCC-19]', async () => {
    const rig = await aServer();
    expect(await firstLine(rig, ['sh', 'ci.sh'])).toMatchObject({ ok: true });
    const without = `printf '{"cmd":"ping"}' | nc -U ~/.ccc.sock -q 5`;
    expect(await firstLine(rig, ['sh', '-c', without])).toMatchObject({ ok: true });
    const plain = `echo '{"cmd":"ping"}' | nc -U ~/.ccc.sock`;
    expect(await firstLine(rig, ['sh', '-c', plain])).toMatchObject({ ok: true });
    expect(await rig.claude.prompted(1)).toEqual(['Run linter and fix issues']);
    expect((await rig.history('myproject'))[0]?.agent).toBe('github-actions');
  });

  withBoth('get an answer that takes long, though they closed their side at once [CCC-166]', async () => {
    const rig = await aServer();
    const request = `echo '{"cmd":"ask","session":"myproject","text":"@@{\\\\"delay\\\\":3000,\\\\"text\\\\":\\\\"slow\\\\"}@@"}'`;
    for (const program of [
      'nc -U ~/.ccc.sock -q 300',
      'nc -N -U ~/.ccc.sock',
      'socat -t 300 - UNIX-CONNECT:$HOME/.ccc.sock',
    ]) {
      const answer = await firstLine(rig, ['sh', '-c', `${request} | ${program}`]);
      expect([program, answer['response']]).toEqual([program, 'slow']);
    }
  });

  withSocat('in shell with socat run as written [CCC-145]', async () => {
    const rig = await aServer();
    const cwd = `${rig.home}/examples`;
    const { out } = await rig.program(['sh', 'socat.sh', 'sessions'], { cwd });
    expect(JSON.parse(out)).toMatchObject({ ok: true, sessions: [{ name: 'myproject' }] });
    const typed = await rig.program(['sh', 'socat.sh'], { cwd, stdin: '{"cmd":"ping"}\n{"cmd":"activity"}\n' });
    expect(typed.out.trimEnd().split('\n')).toHaveLength(2);
  });

  withPython('in Python run as written [CCC-145, CCC-146]', async () => {
    const rig = await aServer();
    const out = await python(rig, ['ccc_request.py']);
    expect(out).toMatch(/^CCC v\S+, up \d+s\n {2}myproject \(stopped\) cwd=\S+\n/);
    expect(out).toMatch(/\nResponse \(msg 2\): re: What tests are failing\?\nSession restarted successfully\n$/);
  });

  withGo('in Go run as written [CCC-145]', async () => {
    const rig = await aServer();
    const { out, err, code } = await rig.program(['go', 'run', 'sessions.go'], {
      cwd: `${rig.home}/examples`,
      env: { GOCACHE: `${rig.home}/go-cache`, GO111MODULE: 'off', GOFLAGS: '-mod=mod', GOTELEMETRY: 'off' },
    });
    expect([err, code]).toEqual(['', 0]);
    expect(out).toMatch(/^map\[ok:true sessions:\[map\[.*name:myproject .*status:stopped\]\]\]\n$/);
  });

  withPython('send and poll [CCC-147, CCC-56]', async () => {
    const rig = await aServer();
    expect(await python(rig, ['patterns.py', 'poll', 'myproject'], { PAUSE: '0.2' })).toBe(
      'Claude responded: re: Run the full test suite and fix failures\n',
    );
  });

  withPython('look before they send [CCC-148]', async () => {
    const rig = await aServer();
    expect(await python(rig, ['patterns.py', 'preflight', 'myproject'])).toBe('re: ...\n');
    const asking = rig.ask('myproject', '@@{"hold":true}@@');
    await rig.claude.prompted(2);
    await rig.until('myproject', 'active');
    const busy = await rig.program(['python3', 'patterns.py', 'preflight', 'myproject'], {
      cwd: `${rig.home}/examples`,
    });
    expect(busy.err).toContain('RuntimeError: Session is busy, retry later');
    await rig.claude.order({ finish: 'done' });
    await asking;
  });

  withPython('watch every change, one event per read [CCC-149, CCC-119]', async () => {
    const rig = await aServer();
    await rig.ask('myproject', 'start');
    await rig.until('myproject', 'idle');
    const child = Bun.spawn(['python3', 'patterns.py', 'monitor', 'myproject'], {
      cwd: `${rig.home}/examples`,
      env: { ...rig.claude.env, EVENTS: '5' },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'inherit',
    });
    let said = '';
    const reading = (async () => {
      for await (const chunk of child.stdout) said += Buffer.from(chunk).toString();
    })();
    // Each event is read before the next: on a busy machine one read could get two.
    const says = (status: string): Promise<void> => within(20_000, async () => said.endsWith(`myproject: ${status}\n`));
    await says('idle');
    for (const text of ['one', 'two']) {
      const asking = rig.ask('myproject', `${text} @@{"hold":true}@@`);
      await says('active');
      await rig.claude.order({ finish: 'done' });
      await asking;
      await says('idle');
    }
    await reading;
    expect(said.trimEnd().split('\n')).toEqual(
      ['idle', 'active', 'idle', 'active', 'idle'].map((status) => `myproject: ${status}`),
    );
  });

  withPython('find a session by the end of its path [CCC-151]', async () => {
    const rig = await aServer();
    expect(await python(rig, ['patterns.py', 'discover', 'myproject'])).toBe('myproject re: ...\n');
  });

  withPython('recover a session that cannot be started, also one that never talked [CCC-70, CCC-152]', async () => {
    const rig = await aServer();
    rig.claude.starts({ exit: { code: 1, line: 'out of order' } });
    const words = ['python3', 'patterns.py', 'recover', 'myproject'];
    const failed = await rig.program(words, { cwd: `${rig.home}/examples` });
    expect(failed.err).toContain('Cannot recover session: session started but Claude failed to initialize');
    rig.claude.starts({});
    expect(JSON.parse(await python(rig, words.slice(1)))).toMatchObject({ ok: true });
    expect(await rig.claude.prompted(1)).toEqual(['Run tests']);
  });
});
