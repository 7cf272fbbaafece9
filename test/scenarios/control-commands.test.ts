import { afterEach, describe, expect, it } from 'bun:test';
import { chmodSync, lstatSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { ControlRig } from '../support/control-rig.ts';
import { pixelsOf } from '../support/png.ts';
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

describe('parley ask', () => {
  it('prints the answer, and what happens beside it', async () => {
    const rig = await aRig().listen();
    const { out, err, code } = await rig.run('parley', ['ask', 'api', 'which', 'tests', 'fail?']);
    expect([out, code]).toEqual(['re: which tests fail?\n', 0]);
    expect(err).toContain('api: stopped\n');
    const piped = await rig.run('parley', ['ask', 'api', '-', '--json'], { stdin: 'two\nlines\n' });
    expect(JSON.parse(piped.out)).toMatchObject({ ok: true, response: 're: two\nlines' });
    expect(rig.claude.prompts()).toEqual(['which tests fail?', 'two\nlines']);
  });

  it('ends with 2 if the session asks a person, and the prompt stays', async () => {
    const rig = await aRig().listen();
    const { err, code } = await rig.run('parley', ['ask', 'api', '@@{"ask":"permission prompt","text":"done"}@@']);
    expect([code, err]).toEqual([2, expect.stringContaining('api waits for a person: permission prompt')]);
    expect(err).toContain('the prompt waits until its time is over');
    expect((await rig.run('parley', ['questions', 'api'])).out).toStartWith(
      'api waits for a person: permission prompt\n',
    );
    await rig.claude.order({ close: '' });
    await within(20_000, async () => (await rig.history('api')).at(-1)?.text === 'done');
  });

  it('says why the prompt waits, and after Ctrl-C that it stays', async () => {
    const rig = await aRig().listen();
    await rig.ask('api', 'start');
    await rig.claude.order({ draft: 'I am writing' });
    const child = Bun.spawn([PARLEY, 'ask', 'api', 'later'], {
      cwd: rig.home,
      env: rig.claude.env,
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'pipe',
    });
    let said = '';
    const reading = (async () => {
      const decoder = new TextDecoder();
      for await (const chunk of child.stderr) said += decoder.decode(chunk);
    })();
    await within(20_000, async () => said.includes('api: waits, there is a draft in the composer\n'));
    child.kill('SIGINT');
    await reading;
    expect(await child.exited).toBe(130);
    expect(said).toEndWith(
      'parley: prompt 3 stays and will be typed; take it back: parley queue --cancel 3; its answer: parley history api\n',
    );
    expect((await rig.run('parley', ['queue', '--cancel', '3'])).out).toBe('taken back: 3\n');
  });

  it('ends with 4 if the session could not be started', async () => {
    const rig = await aRig({ api: {} }, { command: { claude: '/nosuch/claude' } }).listen();
    const { err, code } = await rig.run('parley', ['ask', 'api', 'x']);
    expect([code, err]).toEqual([
      4,
      expect.stringMatching(/parley: failed to restart Claude: .*; nothing was typed\n$/),
    ]);
  });

  it('ends with 5 if the client ends during the turn', async () => {
    const rig = await aRig().listen();
    const { err, code } = await rig.run('parley', ['ask', 'api', '@@{"die":true}@@']);
    expect([code, err]).toEqual([5, expect.stringContaining('parley: session stopped; see `parley history api`\n')]);
  });

  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'ends with 6 if the server ends by %s, names the prompt, and says not to ask again',
    async (signal) => {
      const rig = await aRig().listen();
      const asking = rig.run('parley', ['ask', 'api', '@@{"hold":true}@@', '--json']);
      await rig.claude.prompted(1);
      await rig.end(signal);
      const { out, err, code } = await asking;
      expect([code, err]).toEqual([
        6,
        expect.stringMatching(/prompt 1 is stored .* do not ask again, see `parley history api`\n$/),
      ]);
      expect(JSON.parse(out)).toMatchObject({ ok: false, prompt_id: 1 });
    },
  );

  it('waits as long as --timeout says', async () => {
    const rig = await aRig().listen();
    const { err, code } = await rig.run('parley', ['ask', 'api', '@@{"hold":true}@@', '--timeout', '2s']);
    expect([code, err]).toEqual([3, expect.stringContaining('no answer within the time')]);
    expect((await rig.run('parley', ['ask', 'api', 'x', '--timeout', '2d'])).code).toBe(64);
  });

  it('ends with 3 if no answer comes in time', async () => {
    const rig = aRig();
    await rig.listen({ PARLEY_CONTROL_ASK_MS: '1500' });
    const { err, code } = await rig.run('parley', ['ask', 'api', '@@{"hold":true}@@']);
    expect([code, err]).toEqual([3, expect.stringContaining('parley history api')]);
  });

  it('says how to start a server if none runs', async () => {
    for (const words of [['ask', 'api', 'x'], ['prompt', 'api', 'x'], ['sessions'], ['queue'], ['history', 'api']]) {
      const { err, code } = await aRig().run('parley', words);
      expect([words[0], code]).toEqual([words[0], 76]);
      expect(err).toMatch(
        /^parley: no control server answers on .*`parley up --with control --detach`, or `parley ccc listen`\n$/,
      );
    }
  });

  it('says which session is unknown', async () => {
    const rig = await aRig().listen();
    const { err, code } = await rig.run('parley', ['ask', 'nosuch', 'x']);
    expect([err, code]).toEqual(['parley: session not found: nosuch; there is api\n', 66]);
    for (const words of [
      ['prompt', 'apo', 'x'],
      ['queue', 'apo'],
      ['screenshot', 'apo'],
      ['history', 'apo'],
      ['session', 'remove', 'apo'],
    ])
      expect((await rig.run('parley', words)).err).toBe('parley: session not found: apo; did you mean api?\n');
  });
});

describe('parley prompt and queue', () => {
  it('give a prompt without waiting, show it, and take it back', async () => {
    const rig = await aRig().listen();
    const first = await rig.run('parley', ['prompt', 'api', '@@{"hold":true}@@', '--json']);
    expect(JSON.parse(first.out)).toMatchObject({ ok: true });
    await rig.claude.prompted(1);
    expect((await rig.run('parley', ['prompt', 'api', 'not now'])).out).toMatch(/^queued as 2/);
    const queued = await rig.run('parley', ['queue']);
    expect(queued.out).toMatch(/^1 {2}api {2}submitted/);
    expect(queued.out).toMatch(/\n2 {2}api {2}queued/);
    expect((await rig.run('parley', ['queue', '--cancel', '2'])).out).toBe('taken back: 2\n');
    const again = await rig.run('parley', ['queue', '--cancel', '1']);
    expect([again.code, again.err]).toEqual([75, expect.stringContaining('too late: it was typed')]);
    const ended = await rig.run('parley', ['queue', '--cancel', '2']);
    expect([ended.code, ended.err]).toEqual([75, 'parley: too late: it has ended (withdrawn)\n']);
    const unknown = await rig.run('parley', ['queue', '--cancel', '99']);
    expect([unknown.code, unknown.err]).toEqual([66, 'parley: no prompt 99\n']);
    await rig.claude.order({ finish: 'done' });
    await within(20_000, async () => (await rig.run('parley', ['queue'])).out === 'nothing waits\n');
    expect(rig.claude.prompts()).toHaveLength(1);
    const history = (await rig.run('parley', ['history', 'api'])).out;
    expect(history).toMatch(/^1 {2}\[parley\] {2}[^\n]*\n {2}@@/);
    expect(history).toMatch(/\n2 {2}\[parley\] {2}.* {2}withdrawn\n {2}not now\n3 {2}claude ↳ 1 {2}.*\n {2}done\n$/);
  });
});

describe('parley session', () => {
  it('refuses a client that cannot be given prompts, quotes a name, and aligns its list', async () => {
    const rig = aRig({});
    const gemini = await rig.run('parley', ['session', 'add', 'gm', '.', '--client', 'gemini']);
    expect([gemini.code, gemini.err]).toEqual([
      64,
      'parley: --client: only these can be given prompts: claude, codex, opencode, kimi\n',
    ]);
    expect((await rig.run('parley', ['session', 'add', 'my app', '.'])).out).toContain(
      'Next: parley ask "my app" <text>',
    );
    await rig.run('parley', ['session', 'add', 'x', '.', '--client', 'codex', '--flag=--model', '--flag=gpt-5']);
    const listed = (await rig.run('parley', ['session', 'list'])).out;
    expect(listed).toBe(`my app  claude  ${rig.home}\nx       codex   ${rig.home}\n`);
    expect(JSON.parse(readFileSync(`${rig.home}/.ccc.json`, 'utf8'))).toMatchObject({
      sessions: { x: { flags: ['--model', 'gpt-5'] } },
    });
  });

  it('that was removed keeps a history that can be read', async () => {
    const rig = await aRig().listen();
    await rig.ask('api', 'hello');
    expect((await rig.run('parley', ['session', 'remove', 'api'])).out).toContain('parley history api');
    expect((await rig.run('parley', ['history', 'api'])).out).toContain('re: hello');
    await expect(rig.history('api')).rejects.toThrow('session not found');
  });
});

describe('parley sessions, screenshot, questions and answer', () => {
  it('show what there is', async () => {
    const rig = await aRig().listen();
    await rig.ask('api', 'hello');
    expect((await rig.run('parley', ['sessions'])).out).toMatch(/^api {2}idle {5}\S+\/work\/api {2}just now\n$/);
    expect(JSON.parse((await rig.run('parley', ['sessions', '--json'])).out)).toMatchObject([
      { name: 'api', status: 'idle' },
    ]);
    expect((await rig.run('parley', ['screenshot', 'api', '--lines', '50'])).out).toContain('● re: hello');
    expect((await rig.run('parley', ['questions', 'api'])).out).toBe('no question is open\n');
    const answer = await rig.run('parley', ['answer', 'api', '0', '1']);
    expect([answer.code, answer.err]).toEqual([64, 'parley: no pending questions for this session\n']);
  });

  it('draws the terminal as a picture, for you only', async () => {
    const rig = await aRig().listen();
    await rig.ask('api', 'hello');
    const cwd = rig.folder('api');
    const named = await rig.run('parley', ['screenshot', 'api', 'screen.svg'], { cwd });
    expect([named.out, named.code]).toEqual([`${cwd}/screen.svg\n`, 0]);
    expect(readFileSync(`${cwd}/screen.svg`, 'utf8')).toContain('hello</text>');
    expect(statSync(`${cwd}/screen.svg`).mode & 0o777).toBe(0o600);
    writeFileSync(`${cwd}/other`, 'of another');
    chmodSync(`${cwd}/screen.svg`, 0o644);
    symlinkSync(`${cwd}/other`, `${cwd}/link.svg`);
    for (const file of ['screen.svg', 'link.svg']) {
      await rig.run('parley', ['screenshot', 'api', file], { cwd });
      const found = lstatSync(`${cwd}/${file}`);
      expect([found.isFile(), found.mode & 0o777]).toEqual([true, 0o600]);
    }
    expect(readFileSync(`${cwd}/other`, 'utf8')).toBe('of another');
    const folder = await rig.run('parley', ['screenshot', 'api', cwd, '--svg'], { cwd });
    expect([folder.err.includes('is no plain file'), folder.code]).toEqual([true, 64]);
    const { out } = await rig.run('parley', ['screenshot', 'api', '--png'], { cwd });
    expect(out).toMatch(/\/api-\d{8}-\d{6}\.png\n$/);
    const { width, height } = pixelsOf(readFileSync(out.trim()));
    expect([width > 200, height > 100]).toEqual([true, true]);
    expect((await rig.run('parley', ['screenshot', 'api', '-', '--svg'], { cwd })).out).toStartWith('<svg ');
    const unclear = await rig.run('parley', ['screenshot', 'api', 'screen.gif'], { cwd });
    expect([unclear.err.includes('say which kind of picture: --png or --svg'), unclear.code]).toEqual([true, 64]);
  });

  it('follow every change', async () => {
    const rig = await aRig().listen();
    const child = Bun.spawn([PARLEY, 'sessions', '--follow', '--json'], {
      cwd: rig.home,
      env: rig.claude.env,
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'ignore',
    });
    const decoder = new TextDecoder();
    let said = '';
    const reading = (async () => {
      for await (const chunk of child.stdout) said += decoder.decode(chunk);
    })();
    await within(20_000, async () => said.includes('"stopped"'));
    await rig.ask('api', 'start');
    await within(20_000, async () => said.includes('"idle"'));
    const before = said.length;
    // A short turn, too, which may be over before anybody looks.
    await rig.ask('api', 'short');
    await within(20_000, async () => /"active".*\n.*"idle"/.test(said.slice(before)));
    child.kill();
    await reading;
    for (const line of said.trimEnd().split('\n')) expect(JSON.parse(line)).toHaveProperty('event');
  });
});

describe('ccc', () => {
  it('alone in a folder makes a session, starts it and attaches; the second time it finds it [CCC-164]', async () => {
    const rig = aRig({});
    const folder = rig.folder('my-app');
    await Bun.write(`${folder}/.keep`, '');
    for (const count of [1, 2]) {
      const seen = personAt({
        command: [PARLEY],
        argv0: 'ccc',
        cwd: folder,
        env: { ...rig.claude.env, NO_COLOR: '1' },
        typed: '',
        limitMs: 25_000,
      });
      await within(20_000, async () => (await rig.claude.tmux('list-clients').catch(() => '')) !== '');
      expect(await rig.claude.tmux('list-clients', '-F', '#{session_name}')).toBe('ccc-my-app\n');
      await rig.claude.tmux('detach-client', '-s', '=ccc-my-app');
      const { shown, code } = await seen;
      expect([count, code]).toEqual([count, 0]);
      if (count === 1) expect(shown).toContain(`new session my-app (${folder})`);
      await within(20_000, async () => (await rig.claude.tmux('list-clients').catch(() => '')) === '');
    }
    expect(rig.claude.running()).toHaveLength(1);
    expect(JSON.parse(readFileSync(`${rig.home}/.ccc.json`, 'utf8'))).toEqual({
      sessions: { 'my-app': { path: folder } },
    });
    await rig.listen();
    expect((await rig.ask('my-app', 'hello'))['response']).toBe('re: hello');
    expect(rig.claude.running()).toHaveLength(1);
  });

  it('alone attaches at once to a client that asks whether it may trust the folder, also the second time [CCC-164]', async () => {
    const rig = aRig({});
    rig.claude.starts({ trust: true });
    const folder = rig.folder('fresh');
    await Bun.write(`${folder}/.keep`, '');
    const env = { ...rig.claude.env, NO_COLOR: '1' };
    for (const count of [1, 2]) {
      const seen = personAt({ command: [PARLEY], argv0: 'ccc', cwd: folder, env, typed: '', limitMs: 25_000 });
      await within(20_000, async () => (await rig.claude.tmux('list-clients').catch(() => '')) !== '');
      await rig.claude.tmux('detach-client', '-s', '=ccc-fresh');
      expect([count, (await seen).code]).toEqual([count, 0]);
      await within(20_000, async () => (await rig.claude.tmux('list-clients').catch(() => '')) === '');
    }
    expect([rig.claude.running().length, rig.claude.harm()]).toEqual([1, []]);
  });

  it('kill ends a session with and without a server, and keeps its history [CCC-164]', async () => {
    const rig = await aRig({ one: {}, two: {} }).listen();
    await rig.ask('one', 'hello');
    await rig.ask('two', 'hello');
    expect((await rig.run('ccc', ['kill', 'one'])).out).toBe('killed one; its history stays\n');
    await within(20_000, async () => rig.claude.running().length === 1);
    await rig.end();
    expect((await rig.run('ccc', ['kill', 'two'])).code).toBe(0);
    await within(20_000, async () => rig.claude.running().length === 0);
    expect(rig.files()).toHaveLength(4);
    await rig.listen();
    expect((await rig.request({ cmd: 'sessions' }))['sessions']).toEqual([]);
    await rig.run('ccc', ['new', 'one', rig.folder('one')]);
    expect(await rig.history('one')).toHaveLength(2);
  });

  it('does not attach what is no terminal, and helps', async () => {
    const rig = aRig();
    const alone = await rig.run('ccc', []);
    expect([alone.code, alone.err]).toEqual([1, expect.stringContaining('see `ccc help`')]);
    const help = await rig.run('ccc', ['help']);
    expect(help.out).toContain('ccc new [host:]name [path]');
    expect(await rig.run('parley', ['help', 'ccc'])).toEqual(help);
    expect((await rig.run('parley', ['ccc', 'list'])).out).toContain('api');
    const wrong = await rig.run('ccc', ['lisst']);
    expect([wrong.code, wrong.err]).toEqual([1, 'error: unknown command "lisst"; did you mean `ccc list`?\n']);
  });

  it('refuses a name that is taken, and a folder that is not there [CCC-165]', async () => {
    const rig = aRig();
    writeFileSync(`${rig.home}/file`, '');
    expect((await rig.run('ccc', ['new', 'api', '.'])).err).toMatch(/^error: session api exists already/);
    expect((await rig.run('ccc', ['new', 'x', 'nosuch'])).err).toMatch(/^error: there is no folder .*nosuch/);
    expect((await rig.run('ccc', ['new', 'x', 'file'])).err).toMatch(/^error: there is no folder .*file/);
    expect((await rig.run('ccc', ['new', 'a,b', '.'])).err).toContain('cannot name a session');
    expect((await rig.run('ccc', ['new', 'msi:x', '/far'])).err).toContain('host not configured');
  });
});
