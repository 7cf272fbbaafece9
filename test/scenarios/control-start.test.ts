import { afterEach, describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { ControlRig } from '../support/control-rig.ts';
import { PARLEY, personAt } from '../support/program.ts';
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

/** The options of every start of the client. */
const starts = (rig: ControlRig): string[][] => rig.claude.noted().flatMap(({ started }) => (started ? [started] : []));

const byFirst = ([a = '']: string[], [b = '']: string[]): number => (a < b ? -1 : 1);

describe('a session that does not run', () => {
  it('is started fresh if it never talked, and with its conversation after that [CCC-43, CCC-55, CCC-64, CCC-176]', async () => {
    const rig = await aRig({ api: {} }, { flags: { claude: ['--verbose'] } }).listen();
    expect(await rig.ask('api', 'one')).toMatchObject({ ok: true, started: 'fresh' });
    await rig.claude.tmux('kill-session', '-t', '=ccc-api');
    await rig.until('api', 'stopped');
    expect(await rig.ask('api', 'two')).toMatchObject({ ok: true, response: 're: two', started: 'resumed' });
    await rig.claude.tmux('kill-session', '-t', '=ccc-api');
    await rig.until('api', 'stopped');
    expect((await rig.send('api', 'three')).ok).toBe(true);
    await rig.claude.prompted(3);
    const [first, ...later] = starts(rig);
    expect(first).toEqual(['--verbose']);
    for (const words of later)
      expect(words).toEqual(['--verbose', '--resume', expect.any(String) as unknown as string]);
    const sessions = new Set(rig.claude.noted().flatMap(({ prompt, session }) => (prompt ? [session] : [])));
    expect(sessions.size).toBe(1);
  });

  it('is started with -c where its folder has a conversation that it did not have itself [CCC-43, CCC-176]', async () => {
    const rig = aRig();
    await rig.claude.openByHand('mine', rig.folder('api'));
    await rig.claude.tmux('send-keys', '-t', '=mine:', 'by hand');
    await rig.claude.tmux('send-keys', '-t', '=mine:', 'Enter');
    await rig.claude.prompted(1);
    await rig.claude.until('idle');
    await rig.claude.tmux('kill-session', '-t', '=mine');
    await within(20_000, async () => rig.claude.running().length === 0);
    await rig.listen();
    expect(await rig.ask('api', 'hello')).toMatchObject({ ok: true, started: 'resumed' });
    expect(starts(rig).at(-1)).toEqual(['-c']);
  });

  it('whose client crashed in its terminal is started again, and nothing is typed at a shell [CCC-44, CCC-175]', async () => {
    const rig = await aRig().listen();
    await rig.ask('api', 'one');
    const [running] = rig.claude.running();
    process.kill(running?.pid ?? 0, 'SIGKILL');
    expect(await rig.ask('api', 'two')).toMatchObject({ ok: true, response: 're: two' });
    expect(rig.claude.harm()).toEqual([]);
    expect(rig.claude.prompts()).toEqual(['one', 'two']);
  });

  it('that does not come up says why, and the message is marked as failed [CCC-138, CCC-160, CCC-177, CCC-189]', async () => {
    const rig = aRig();
    rig.claude.starts({ exit: { code: 1, line: 'Error: no licence here' } });
    await rig.listen();
    expect((await rig.ask('api', 'hello')).error).toMatch(/^failed to restart Claude: .*no licence here/);
    expect((await rig.send('api', 'hello')).error).toMatch(/^failed to restart Claude: .*no licence here/);
    expect(await rig.request({ cmd: 'continue', session: 'api' })).toEqual({
      ok: false,
      error: 'session started but Claude failed to initialize',
      reason: expect.stringContaining('no licence here'),
    });
    for (const line of await rig.history('api'))
      expect(line).toMatchObject({ status: 'failed', error: expect.any(String) });
    rig.claude.starts({});
    expect(await rig.request({ cmd: 'continue', session: 'api' })).toEqual({ ok: true });
    expect((await rig.send('api', 'again')).ok).toBe(true);
    expect(await rig.claude.prompted(1)).toEqual(['again']);
  });

  it('that starts slowly is waited for [CCC-65, CCC-177]', async () => {
    const rig = aRig();
    rig.claude.starts({ ms: 6000 });
    await rig.listen();
    expect(await rig.request({ cmd: 'continue', session: 'api' })).toEqual({ ok: true });
    expect(await rig.ask('api', 'hello')).toMatchObject({ ok: true, response: 're: hello' });
    expect(starts(rig)).toHaveLength(1);
  });

  it('whose folder is not trusted yet waits for its user, also after a restart of the server; then its prompts go in [CCC-159, CCC-175, CCC-177]', async () => {
    const rig = aRig();
    rig.claude.starts({ trust: true });
    await rig.listen();
    const { code, err } = await rig.run('parley', ['ask', 'api', 'one']);
    expect([code, err]).toEqual([2, expect.stringContaining('api waits for a person: dialog open')]);
    expect(err).toContain('tmux attach -t =ccc-api');
    expect(await rig.send('api', 'two')).toMatchObject({ ok: true, status: 'queued' });
    await rig.end();
    await rig.listen();
    expect(await rig.send('api', 'three')).toMatchObject({ ok: true, status: 'queued' });
    const { sessions } = await rig.request({ cmd: 'sessions' });
    expect(sessions).toMatchObject([{ name: 'api', waiting_for: 'dialog open' }]);
    expect((await rig.run('parley', ['queue'])).out).toContain('the session waits for its user: dialog open');
    expect([starts(rig), rig.claude.harm()]).toEqual([[[]], []]);
    await rig.claude.tmux('send-keys', '-t', '=ccc-api:', 'Down', 'Enter');
    expect(await rig.claude.prompted(3)).toEqual(['one', 'two', 'three']);
    await within(20_000, async () => (await rig.history('api')).at(-1)?.text === 're: three');
    expect([starts(rig), rig.claude.harm()]).toEqual([[[]], []]);
  });

  it('that is slower than the file allows has failed to come up [CCC-65, CCC-136, CCC-177]', async () => {
    const rig = aRig({ api: {} }, { start_timeout_seconds: 1 });
    rig.claude.starts({ ms: 30_000 });
    await rig.listen();
    expect((await rig.request({ cmd: 'continue', session: 'api' })).error).toBe(
      'session started but Claude failed to initialize',
    );
  });

  it('cannot be started without tmux [CCC-66, CCC-137]', async () => {
    const rig = aRig();
    const bin = `${rig.home}/no-tmux`;
    mkdirSync(bin);
    for (const name of ['sh', 'env']) symlinkSync(Bun.which(name) ?? '', `${bin}/${name}`);
    symlinkSync(rig.claude.program, `${bin}/claude`);
    await rig.listen({ PATH: bin });
    expect((await rig.request({ cmd: 'continue', session: 'api' })).error).toMatch(/^failed to start: .*tmux/);
    expect((await rig.ask('api', 'hello')).error).toMatch(/^failed to restart Claude: .*tmux/);
  });

  it('without tmux: ccc, listen, up and doctor say so in one line', async () => {
    const rig = aRig();
    const bin = `${rig.home}/no-tmux`;
    mkdirSync(bin);
    for (const name of ['sh', 'env']) symlinkSync(Bun.which(name) ?? '', `${bin}/${name}`);
    const env = { ...rig.claude.env, PATH: bin, NO_COLOR: '1' };
    const said = 'tmux is not installed, and sessions run in it: install it';
    const alone = await personAt({ command: [PARLEY, 'ccc'], cwd: rig.folder('api'), env, typed: '', limitMs: 20_000 });
    expect([alone.shown.trim(), alone.code]).toEqual([`error: ${said}`, 1]);
    const up = await rig.program([PARLEY, 'up', '--with', 'control', '--detach'], { env });
    expect([up.code, up.err]).toEqual([0, `warning: ${said}\n`]);
    const { out } = await rig.program([PARLEY, 'doctor', '--json'], { env });
    const { findings } = JSON.parse(out) as { findings: { about: string; level: string; what: string }[] };
    expect(findings.filter(({ about }) => about === 'control')).toMatchObject([
      { level: 'ok', what: expect.stringContaining('.ccc.json has 1 session') as unknown as string },
      { level: 'bad', what: 'the client claude is not found' },
      { level: 'bad', what: said },
      { level: 'ok', what: expect.stringContaining('a server runs') as unknown as string },
    ]);
    expect((await rig.program([PARLEY, 'down'], { env })).code).toBe(0);
    await rig.listen({ PATH: bin });
    rig.server?.kill();
    expect(rig.server && (await new Response(rig.server.stderr).text())).toContain(`warning: ${said}\n`);
  });
});

describe('continue', () => {
  it('makes a new terminal and a new process, with the conversation [CCC-62, CCC-63, CCC-69]', async () => {
    const rig = await aRig({ api: {} }, { flags: { claude: ['--verbose'] } }).listen();
    await rig.ask('api', 'one');
    const inPane = async (): Promise<number> =>
      Number(await rig.claude.tmux('display-message', '-p', '-t', '=ccc-api:', '#{pane_pid}'));
    const before = rig.claude.running()[0]?.pid;
    expect(await inPane()).toBe(before ?? 0);
    expect(await rig.request({ cmd: 'continue', session: 'api', from: 'ci' })).toEqual({ ok: true });
    const [after, ...others] = rig.claude.running();
    expect(others).toEqual([]);
    expect(after?.pid).not.toBe(before);
    expect(await inPane()).toBe(after?.pid ?? 0);
    expect(starts(rig).at(-1)).toEqual(expect.arrayContaining(['--resume', '--verbose']));
    expect((await rig.ask('api', 'two'))['response']).toBe('re: two');
  });

  it('five times at once is one start [CCC-181]', async () => {
    const rig = await aRig().listen();
    await rig.ask('api', 'one');
    const many = await Promise.all(Array.from({ length: 5 }, () => rig.request({ cmd: 'continue', session: 'api' })));
    expect(many).toEqual(Array.from({ length: 5 }, () => ({ ok: true })));
    expect(starts(rig)).toHaveLength(2);
  });
});

describe('sessions side by side', () => {
  it('with names that begin alike are never mixed up [CCC-154]', async () => {
    const rig = await aRig({ app: {}, 'app-web': {} }).listen();
    await rig.ask('app-web', 'for web');
    await rig.ask('app', 'for app');
    const [web, app] = rig.claude.noted().filter(({ prompt }) => prompt);
    expect([web?.cwd, app?.cwd]).toEqual([rig.folder('app-web'), rig.folder('app')]);
  });

  it('in one folder keep their own conversations and answers [CCC-155, CCC-178]', async () => {
    const rig = aRig();
    const path = rig.folder('shared');
    rig.configure({ one: { path }, two: { path } });
    await rig.listen();
    for (let count = 0; count < 2; count++) {
      const [first, second] = await Promise.all([rig.ask('one', `one ${count}`), rig.ask('two', `two ${count}`)]);
      expect([first['response'], second['response']]).toEqual([`re: one ${count}`, `re: two ${count}`]);
      await rig.claude.tmux('kill-session', '-t', '=ccc-one');
      await rig.until('one', 'stopped');
    }
    const turns = rig.claude.noted().filter(({ prompt }) => prompt);
    const talks = Map.groupBy(turns, ({ session }) => session);
    expect([...talks.values()].map((some) => some.map(({ prompt }) => prompt ?? '')).sort(byFirst)).toEqual([
      ['one 0', 'one 1'],
      ['two 0', 'two 1'],
    ]);
  });

  it('with names that tmux cannot take have a terminal each [CCC-156, CCC-165]', async () => {
    const names = ['a.b', 'a_b', 'x y', 'päth'];
    const rig = aRig();
    rig.configure(Object.fromEntries(names.map((name, at) => [name, { path: rig.folder(`n${at}`) }])));
    await rig.listen();
    const answers = await Promise.all(names.map((name) => rig.ask(name, `for ${name}`)));
    expect(answers.map((answer) => answer['response'])).toEqual(names.map((name) => `re: for ${name}`));
    expect(rig.claude.running()).toHaveLength(4);
  });
});

describe('what a session does', () => {
  it('is active, idle or stopped, and every change is told [CCC-31, CCC-36, CCC-119, CCC-120, CCC-121]', async () => {
    const rig = await aRig().listen();
    await rig.ask('api', 'start');
    await rig.request({ cmd: 'stop', session: 'api' });
    await rig.until('api', 'stopped');
    const caller = await rig.caller();
    caller.write('{"cmd":"subscribe","sessions":["api"]}\n');
    const events: unknown[] = [];
    const until = async (status: string): Promise<void> => {
      for (;;) {
        const event = await caller.line();
        if (event['event'] !== 'status') continue;
        events.push(event['status']);
        if (event['status'] === status) return;
      }
    };
    await until('stopped');
    const asking = rig.ask('api', '@@{"hold":true}@@ work');
    await rig.claude.prompted(2);
    // Before the prompt was typed, and after its turn.
    await until('idle');
    await until('active');
    await rig.claude.order({ finish: 'done' });
    await asking;
    await until('idle');
    await rig.claude.tmux('kill-server');
    await until('stopped');
    expect(await rig.status('api')).toBe('stopped');
    expect(events[0]).toBe('stopped');
    expect(events.slice(-3)).toEqual(['active', 'idle', 'stopped']);
  });

  it('can be seen as its terminal shows it, at most so many lines [CCC-95, CCC-96, CCC-97, CCC-100]', async () => {
    const rig = await aRig().listen();
    expect((await rig.request({ cmd: 'screenshot', session: 'api' })).error).toMatch(/^capture failed: ./);
    await rig.ask('api', 'a marker for the screen');
    const shown = String((await rig.request({ cmd: 'screenshot', session: 'api' }))['response']);
    expect(shown).toMatch(/❯\s+a marker for the screen/);
    expect(shown).toContain('? for shortcuts');
    const few = String((await rig.request({ cmd: 'screenshot', session: 'api', limit: 5 }))['response']);
    expect(few.split('\n').length).toBeLessThanOrEqual(5);
    expect(shown.trimEnd().endsWith(few.trimEnd())).toBe(true);
  });

  it('lives on when the server ends and starts again; asks that wait end at once, and nothing is typed twice [CCC-200, CCC-3]', async () => {
    const rig = await aRig({ a: {}, b: {} }).listen();
    await rig.ask('a', 'start');
    const pid = rig.claude.running()[0]?.pid;
    const asking: ReturnType<typeof rig.ask>[] = [];
    for (const text of ['one @@{"hold":true}@@', 'two', 'three']) {
      asking.push(rig.ask('a', text));
      const open = async () => (await rig.request({ cmd: 'queue' }))['queue'] as unknown[];
      await within(20_000, async () => (await open()).length === asking.length);
    }
    await rig.claude.prompted(2);
    const began = performance.now();
    const ended = rig.end();
    const answers = await Promise.all(asking);
    await ended;
    expect(existsSync(rig.socket)).toBe(false);
    expect(performance.now() - began).toBeLessThan(10_000);
    for (const { ok, error } of answers) expect([ok, error]).toEqual([false, expect.stringContaining('stopping')]);
    expect(rig.claude.running().map((one) => one.pid)).toEqual([pid] as number[]);
    await rig.listen();
    await rig.claude.order({ finish: 'done' });
    await within(30_000, async () => (await rig.history('a', { from_filter: 'claude' })).length === 4);
    const typed = rig.claude.prompts().map((prompt) => prompt.split(' ')[0]);
    expect(typed).toEqual(['start', 'one', 'two', 'three']);
  });

  it('goes on after a server that was killed; every answer is in the history, and nothing is typed twice [CCC-6]', async () => {
    const rig = await aRig().listen();
    await rig.ask('api', 'start');
    for (const text of ['one', 'two', 'three']) await rig.send('api', `${text} @@{"delay":700}@@`);
    await rig.claude.prompted(2);
    await rig.end('SIGKILL');
    await rig.listen();
    await within(30_000, async () => (await rig.history('api', { from_filter: 'claude' })).length === 4);
    expect(rig.claude.prompts().map((prompt) => prompt.split(' ')[0])).toEqual(['start', 'one', 'two', 'three']);
    const lines = rig.files();
    expect(new Set(lines.map(({ id }) => id)).size).toBe(8);
  });
});
