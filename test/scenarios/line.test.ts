import { describe, expect, it, onTestFinished } from 'bun:test';
import { lstatSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { shortId } from '../../src/core/names.ts';
import type { MessageId } from '../../src/core/names.ts';
import { PARLEY, personAt, Program } from '../support/program.ts';
import { within } from '../support/within.ts';

interface Sent {
  id: string;
  first: boolean;
  step: string;
  copies: { mailbox: string; attention: { policy: string; injection: string } }[];
}
interface Told {
  id: string;
  body: string;
  from: string;
  redelivered?: boolean;
}

describe('one message, from send to settle', () => {
  it('is stored, read once, answered and settled, and its trace says so', async () => {
    const parley = await new Program().init('alice', 'bob');
    const sent = await parley.json<Sent>(['send', '@bob', 'is the deploy blocked?', '--intent', 'question']);
    expect(sent).toMatchObject({ step: 'stored', first: true, copies: [{ mailbox: 'bob' }] });
    const reply = await parley.json<Sent>(['reply', sent.id.slice(0, 8), 'no, it went out at nine'], { as: 'bob' });
    const [answer] = await parley.json<Told[]>(['drain']);
    expect(answer).toMatchObject({ id: reply.id, from: 'bob', body: 'no, it went out at nine', thread: sent.id });
    const trace = await parley.run(['trace', sent.id]);
    expect(trace.out).toContain('responded');
    expect(trace.out).toContain(`reply ${reply.id.slice(0, 8)}\n`);
    expect((await parley.run(['trace', sent.id, '--verbose'])).out).toContain(reply.id);
    expect(trace.out).not.toContain('delivered');
    expect(await parley.json<Told[]>(['inbox'], { as: 'bob' })).toEqual([]);
  });

  it('is told in lines that fit into a terminal, and --verbose gives all of it', async () => {
    const name = `b${'o'.repeat(60)}`;
    const parley = await new Program().init('alice', name);
    const { id } = await parley.json<Sent>(['send', `@${name}`, 'is the deploy blocked?']);
    await parley.run(['drain'], { as: name });
    const narrow = { below: ['sh', '-c', 'stty cols 80; exec "$@"', 'sh'] };
    const short = (await parley.atTerminal(['trace', id], '', narrow)).shown
      .split('\n')
      .filter((line) => /^ {4}\w+ +\d/.test(line));
    expect(short.length).toBeGreaterThan(1);
    expect(short.filter((line) => line.length > 80)).toEqual([]);
    expect(short.some((line) => line.endsWith('…'))).toBe(true);
    const whole = (await parley.atTerminal(['trace', id, '--verbose'], '', narrow)).shown;
    expect(whole).toContain(`agent ${name}`);
  });

  it('is followed step by step until its answer is there', async () => {
    const parley = await new Program().init('alice', 'bob');
    const sent = await parley.json<Sent>(['send', '@bob', 'is the deploy blocked?', '--intent', 'question']);
    const following = parley.run(['trace', sent.id, '--follow', '--json']);
    await parley.run(['drain'], { as: 'bob' });
    await parley.run(['reply', sent.id, 'no'], { as: 'bob' });
    const { out, code } = await following;
    expect(code).toBe(0);
    const steps = out
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as { step: string }).step);
    expect(steps).toEqual(['stored', 'settled', 'answered']);
  });

  it('is seen live by others, with each step, and nothing is taken', async () => {
    const parley = await new Program().init('alice', 'bob');
    const before = await parley.json<Sent>(['send', '@bob', 'earlier']);
    const live = Bun.spawn([PARLEY, 'live', '--json', '--last', '1'], {
      env: parley.env,
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'ignore',
    });
    let out = '';
    const reading = (async () => {
      for await (const chunk of live.stdout) out += Buffer.from(chunk).toString();
    })();
    await within(20_000, async () => out.includes(before.id));
    const sent = await parley.json<Sent>(['send', '@bob', 'now']);
    await within(20_000, async () => out.includes(sent.id));
    expect(await parley.json<Told[]>(['inbox'], { as: 'bob' })).toHaveLength(2);
    await parley.run(['ack', sent.id], { as: 'bob' });
    await within(20_000, async () => out.includes('settled'));
    live.kill();
    await reading;
    const lines = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { message?: { body: string }; step?: string });
    expect(lines.map(({ message, step }) => message?.body ?? step)).toEqual(['earlier', 'now', 'settled']);
  });

  it('is seen live in lines that fit into the window', async () => {
    const parley = await new Program().init('alice', 'bob-with-a-long-name');
    const body = 'many words 日本語 '.repeat(20);
    const { id } = await parley.json<Sent>(['send', '@bob-with-a-long-name', body, '--intent', 'question']);
    await parley.run(['reply', id, 'yes'], { as: 'bob-with-a-long-name' });
    const command = [PARLEY, 'live', '--last', '2'];
    const env = { ...parley.env, NO_COLOR: '1' };
    const at = { command, argv0: 'parley', cwd: parley.home, env, typed: '', interruptAfter: '→ @alice' };
    const { shown } = await personAt({ ...at, cols: 42 });
    const lines = shown.split('\n').filter((line) => line.includes(shortId(id as MessageId)) || line.includes('→'));
    expect(lines.length).toBeGreaterThanOrEqual(3);
    expect(lines.map((line) => Bun.stringWidth(line)).filter((width) => width > 42)).toEqual([]);
    expect(lines.filter((line) => line.endsWith('…')).length).toBeGreaterThanOrEqual(2);
  });

  it('is seen live in every home, also in one that was made later, and in the brokers of other folders', async () => {
    const parley = await new Program().init('alice');
    const live = Bun.spawn([PARLEY, 'live'], { env: parley.env, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' });
    onTestFinished(() => live.kill());
    let out = '';
    void (async () => {
      for await (const chunk of live.stdout) out += Buffer.from(chunk).toString();
    })();
    for await (const _greeting of live.stderr) break;
    const run = (program: string, session: string, ...args: string[]) =>
      Bun.spawnSync([PARLEY.replace(/parley$/, program), ...args], {
        env: { ...parley.env, C2C_MCP_SESSION_ID: session },
      });
    for (const name of ['ann', 'bo']) run('bch', '', 'init', name);
    run('bch', '', 'send', '@ann', 'hello bch');
    for (const [session, alias] of [
      ['s1', 'storm'],
      ['s2', 'ember'],
    ] as const)
      run('c2c', session, 'register', alias);
    run('c2c', 's1', 'send', 'ember', 'hello c2c');
    await within(20_000, async () => /in home bch +hello bch[^]*in home c2c +hello c2c/.test(out));
  });

  it('is seen live beside homes of other folders that are broken or deleted', async () => {
    const parley = await new Program().init('alice', 'bob');
    const repos = `${parley.env['HOME']}/.c2c/repos`;
    const c2c = (session: string, ...args: string[]) =>
      Bun.spawnSync([PARLEY.replace(/parley$/, 'c2c'), ...args], {
        cwd: parley.home,
        env: { ...parley.env, C2C_MCP_SESSION_ID: session },
      });
    c2c('s1', 'register', 'storm');
    c2c('s2', 'register', 'ember');
    c2c('s1', 'send', 'ember', 'hello c2c');
    mkdirSync(`${repos}/other/broker`, { recursive: true });
    writeFileSync(`${repos}/other/broker/ledger.db`, 'no database');
    const live = Bun.spawn([PARLEY, 'live', '--json'], { env: parley.env, stdio: ['ignore', 'pipe', 'pipe'] });
    onTestFinished(() => live.kill());
    let [out, err] = ['', ''];
    void (async () => {
      for await (const chunk of live.stdout) out += Buffer.from(chunk).toString();
    })();
    void (async () => {
      for await (const chunk of live.stderr) err += Buffer.from(chunk).toString();
    })();
    await within(20_000, async () => /left out: .*other.broker/.test(err) && out.includes('hello c2c'));
    rmSync(repos, { recursive: true });
    await within(20_000, async () => err.includes('was deleted'));
    const sent = await parley.json<Sent>(['send', '@bob', 'now']);
    await within(20_000, async () => out.includes(sent.id));
  });

  it('is seen live in any number between two looks, and the end of an old one, too', async () => {
    const parley = await new Program().init('alice', 'bob');
    const old = await parley.json<Sent>(['send', '@bob', 'old']);
    const live = Bun.spawn([PARLEY, 'live', '--json'], {
      env: parley.env,
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'ignore',
    });
    let out = '';
    const reading = (async () => {
      for await (const chunk of live.stdout) out += Buffer.from(chunk).toString();
    })();
    await within(20_000, async () => out.includes(old.id));
    live.kill('SIGSTOP');
    const bodies = Array.from({ length: 60 }, (_, n) => `text ${n}`);
    for (const body of bodies) await parley.run(['send', '@bob', body]);
    live.kill('SIGCONT');
    await within(20_000, async () => out.includes('text 59'));
    await parley.run(['ack', old.id], { as: 'bob' });
    await within(20_000, async () => out.includes('settled'));
    live.kill();
    await reading;
    const lines = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { message?: { body: string }; id?: string });
    expect(lines.map(({ message, id }) => message?.body ?? id)).toEqual(['old', ...bodies, old.id]);
  });

  it('is said to be stored and never to be delivered', async () => {
    const parley = await new Program().init('alice', 'bob');
    const { out } = await parley.run(['send', '@bob', 'hello']);
    expect(out).toMatch(/^stored [0-9a-f]{8} for @bob \(must respond\)\n$/);
  });

  it('goes to everyone in a channel but its sender; looking takes nothing, draining takes all [BC-2, BC-6]', async () => {
    const parley = await new Program().init('alice', 'bob', 'carol');
    for (const name of ['alice', 'bob', 'carol']) await parley.run(['sub', '#dev'], { as: name });
    const sent = await parley.json<Sent>(['send', '#dev', 'deploy at five']);
    expect(sent.copies.map((copy) => copy.mailbox)).toEqual(['bob', 'carol']);
    const second = await parley.json<Sent>(['send', '#dev', 'or at six']);
    for (const name of ['bob', 'carol']) {
      for (const command of ['inbox', 'inbox', 'drain']) {
        const told = await parley.json<Told[]>([command], { as: name });
        expect(told.map((one) => one.id)).toEqual([sent.id, second.id]);
      }
    }
    expect(await parley.json<Told[]>(['inbox'])).toEqual([]);
  });

  it('sent twice under one key is one message, with the recipients of the first time', async () => {
    const parley = await new Program().init('alice', 'bob', 'carol');
    await parley.run(['sub', '#dev'], { as: 'bob' });
    const first = await parley.json<Sent>(['send', '#dev', 'hello', '--key', 'k']);
    await parley.run(['sub', '#dev'], { as: 'carol' });
    await parley.run(['drain'], { as: 'bob' });
    const again = await parley.json<Sent>(['send', '#dev', 'hello', '--key', 'k']);
    expect(again).toMatchObject({ id: first.id, first: false });
    expect(again.copies.map((copy) => copy.mailbox)).toEqual(['bob']);
    expect(await parley.json<Told[]>(['inbox'], { as: 'bob' })).toEqual([]);
    const other = await parley.run(['send', '#dev', 'another text', '--key', 'k']);
    expect(other).toMatchObject({ code: 65 });
    expect(other.err).toContain('use a new key');
    expect(await parley.run(['send', '#dev', 'hello', '--key', 'k', '--ref', 'a.ts'])).toMatchObject({ code: 65 });
    const asking = ['send', '@bob', 'hm?', '--key', 'k2', '--intent', 'question', '--deadline', '30m'];
    const asked = await parley.json<Sent>(asking);
    expect(await parley.json<Sent>(asking)).toMatchObject({ id: asked.id, first: false });
    expect(await parley.run(['send', '@bob', 'hm?', '--key', 'k2', '--intent', 'question'])).toMatchObject({
      code: 65,
    });
  });

  it('waits for the session in its context and no other [BC-4]', async () => {
    const parley = await new Program().init('alice', 'bob');
    await parley.run(['send', '@bob', 'for the api', '--scope', 'github.com/org/api']);
    await parley.run(['send', '@bob', 'for anyone']);
    const elsewhere = await parley.json<Told[]>(['drain', '--match', 'git@github.com:org/web.git'], { as: 'bob' });
    expect(elsewhere.map((one) => one.body)).toEqual(['for anyone']);
    const here = await parley.json<Told[]>(['drain', '--match', 'git@github.com:org/api.git'], { as: 'bob' });
    expect(here.map((one) => one.body)).toEqual(['for the api']);
  });

  it('held by a lease is ended by ack, given back by release, and comes back by itself when the time is up', async () => {
    const parley = await new Program().init('alice', 'bob');
    const { id } = await parley.json<Sent>(['send', '@bob', 'hello']);
    await parley.run(['take', id, '--lease', '1h'], { as: 'bob' });
    expect(await parley.json<Told[]>(['inbox'], { as: 'bob' })).toEqual([]);
    expect((await parley.run(['release', id], { as: 'bob' })).out).toStartWith('released');
    await parley.run(['take', '--lease', '0s'], { as: 'bob' });
    const [back] = await parley.json<Told[]>(['inbox'], { as: 'bob' });
    expect(back?.id).toBe(id);
    expect((await parley.run(['ack', id.slice(0, 8)], { as: 'bob' })).out).toBe(
      `settled ${id.slice(0, 8)}: acknowledged\n`,
    );
    expect(await parley.run(['ack', id], { as: 'bob' })).toMatchObject({ code: 75 });
  });

  it('that is acknowledged is deleted, or kept in cur/ if its reader says so, waiting or held [BC-9]', async () => {
    const parley = await new Program().init('alice', 'bob');
    const ids: string[] = [];
    for (const body of ['done', 'keep me', 'keep me too'])
      ids.push((await parley.json<Sent>(['send', '@bob', body])).id);
    const [gone = '', waiting = '', held = ''] = ids;
    await parley.run(['take', held, '--lease', '1h'], { as: 'bob' });
    expect(await parley.run(['ack', gone], { as: 'bob' })).toMatchObject({ code: 0 });
    for (const id of [waiting, held])
      expect(await parley.run(['ack', id, '--keep'], { as: 'bob' })).toMatchObject({ code: 0 });
    const box = `${parley.home}/.parley/spool/bob`;
    expect(readdirSync(`${box}/cur`).sort()).toEqual([`${waiting}.json`, `${held}.json`].sort());
    expect(['tmp', 'new', 'quiet', 'held'].flatMap((folder) => readdirSync(`${box}/${folder}`))).toEqual([]);
    expect(await parley.json<Told[]>(['inbox'], { as: 'bob' })).toEqual([]);
  });

  it('can be withdrawn where nobody has taken it, and the answer says where it was too late', async () => {
    const parley = await new Program().init('alice', 'bob', 'carol');
    for (const name of ['bob', 'carol']) await parley.run(['sub', '#dev'], { as: name });
    const { id } = await parley.json<Sent>(['send', '#dev', 'never mind']);
    await parley.run(['drain'], { as: 'bob' });
    expect((await parley.run(['withdraw', id], { as: 'bob' })).code).toBe(77);
    expect(await parley.json<object>(['withdraw', id])).toEqual({ id, withdrawn: ['carol'], taken: ['bob'] });
    expect(await parley.json<Told[]>(['inbox'], { as: 'carol' })).toEqual([]);
  });

  it('that is ambient chatter waits quietly, and what is meant for the reader waits in sight [C2A-1]', async () => {
    const parley = await new Program().init('alice', 'bob');
    await parley.run(['sub', '#dev'], { as: 'bob' });
    await parley.run(['send', '#dev', 'lunch?']);
    await parley.run(['send', '#dev', '@bob please look at the build']);
    const box = `${parley.home}/.parley/spool/bob`;
    expect(readdirSync(`${box}/quiet`)).toHaveLength(1);
    expect(readdirSync(`${box}/new`)).toHaveLength(1);
    const [chatter] = await parley.json<Told[]>(['inbox'], { as: 'bob' });
    const event = { session_id: 's1', cwd: parley.home, hook_event_name: 'PostToolUse', tool_name: 'Bash' };
    const { out } = await parley.run(['hook', 'claude'], { as: 'bob', stdin: JSON.stringify(event) });
    expect(out).toContain('look at the build');
    expect(out).not.toContain('lunch?');
    expect(await parley.json<Told>(['read', chatter?.id ?? ''], { as: 'bob' })).toMatchObject({ body: 'lunch?' });
    expect(await parley.json<Told[]>(['inbox'], { as: 'bob' })).toEqual([]);
  });
});

describe('a mistake', () => {
  it('in a name is answered with the nearest names, and nothing is stored', async () => {
    const parley = await new Program().init('alice', 'codex-1');
    const run = await parley.run(['send', '@codx-1', 'hello']);
    expect(run).toMatchObject({ code: 68, out: '' });
    expect(run.err).toContain('did you mean @codex-1?');
    expect(await parley.json<Told[]>(['history'])).toEqual([]);
  });

  it.each([
    ['a path for a name', ['send', '@../x', 'hi'], 64],
    ['a path for a channel', ['send', '#../x', 'hi'], 64],
    ['a scope that climbs', ['send', '@alice', 'hi', '--scope', '../../etc'], 64],
    ['a path for an id', ['read', '../../config'], 66],
    ['an unknown option', ['send', '@alice', 'hi', '--urgnt'], 64],
    ['an unknown command', ['snd'], 64],
    ['a name that differs by case', ['init', 'Alice'], 73],
    ['a body above the limit', ['send', '@alice', 'x'.repeat(300)], 65],
    ['no time for a deadline', ['send', '@alice', 'hi', '--deadline', 'soon'], 64],
    ['an unknown intent', ['send', '@alice', 'hi', '--intent', 'gossip'], 64],
    ['a thread that does not exist', ['send', '@alice', 'hi', '--reply-to', 'ffffffff'], 66],
    ['somebody who is nobody', ['inbox', '--as', 'nobody'], 67],
  ])('%s gets one line, its exit code, and changes nothing', async (_case, args, code) => {
    const parley = await new Program(undefined, { PARLEY_BODY_LIMIT: '256' }).init('alice');
    const run = await parley.run(args);
    expect(run).toMatchObject({ code, out: '' });
    expect(run.err.trimEnd().split('\n')).toHaveLength(1);
    expect(await parley.json<Told[]>(['history'])).toEqual([]);
  });

  it('in an id that begins several messages is answered with the candidates', async () => {
    const parley = await new Program().init('alice');
    const box = `${parley.home}/.parley/spool/alice/new`;
    for (const id of ['abc1', 'abc2']) {
      writeFileSync(
        `${box}/${id}.json`,
        JSON.stringify({ id, from: 'x', to: '@alice', body: id, priority: 'normal', ts: '2026-01-01T00:00:00.000Z' }),
      );
    }
    const run = await parley.run(['take', 'abc']);
    expect(run).toMatchObject({ code: 64, out: '' });
    expect(run.err).toContain('abc1, abc2');
    expect((await parley.run(['take', 'abc1'])).out).toContain('abc1');
  });
});

describe('a home', () => {
  it('can be read by its owner alone', async () => {
    const parley = await new Program().init('alice', 'bob');
    await parley.run(['send', '@bob', 'private', '--key', 'k']);
    await parley.run(['take', '--lease', '1h'], { as: 'bob' });
    const open = readdirSync(parley.home, { recursive: true, withFileTypes: true })
      .map((entry) => `${entry.parentPath}/${entry.name}`)
      .filter((path) => (statSync(path).mode & 0o077) !== 0);
    expect(open).toEqual([]);
  });

  it('is made for its owner alone, files 0600 and folders 0700, also where the umask forbids nothing [BC-17, BC-C12]', async () => {
    const before = process.umask(0);
    try {
      const parley = await new Program().init('alice', 'bob');
      const event = { session_id: 's1', cwd: parley.home, hook_event_name: 'PostToolUse', tool_name: 'Bash' };
      for (const args of [
        ['config', 'set', 'agent', 'bob'],
        ['hook', '--write'],
        ['sub', '#dev'],
        ['send', '@alice', 'to be kept', '--key', 'k'],
        ['drain', '--keep', '--as', 'alice'],
        ['send', '@alice', 'to be held'],
        ['take', '--lease', '1h', '--as', 'alice'],
        ['send', '@alice', 'for a session elsewhere', '--scope', 'else/where'],
        ['send', '@alice', 'to be said'],
        ['hook', 'claude', '--as', 'alice'],
        ['search', 'kept'],
        ['send', '#dev', 'chatter', '--as', 'alice'],
        ['unsub', '#dev'],
      ]) {
        const run = await parley.run(args, { stdin: args[0] === 'hook' ? JSON.stringify(event) : '' });
        expect(run).toMatchObject({ code: 0 });
      }
      const made = readdirSync(parley.home, { recursive: true, encoding: 'utf8' });
      const open = made.filter((path) => {
        const stat = lstatSync(`${parley.home}/${path}`);
        const isProgram = path === '.parley/hook';
        // A link has no rights of its own.
        return !stat.isSymbolicLink() && (stat.mode & 0o777) !== (stat.isDirectory() || isProgram ? 0o700 : 0o600);
      });
      expect(open).toEqual([]);
      const places = [
        'agents/bob.json',
        'config.json',
        'ledger.db',
        'sessions/s1/look',
        'sessions/s1/now',
        'hook',
        'sending',
      ];
      for (const place of places) expect(made).toContain(`.parley/${place}`);
      for (const folder of ['quiet', 'held', 'cur'])
        expect(made.filter((path) => path.includes(`/${folder}/`)).length).toBeGreaterThan(0);
    } finally {
      process.umask(before);
    }
  });

  it('shows a stranger who they are, what waits and what to type next', async () => {
    const parley = new Program();
    expect((await parley.run([])).out).toContain('parley init <name>');
    await parley.init('alice', 'bob');
    await parley.run(['send', '@bob', 'hello']);
    const { out } = await parley.run([], { as: 'bob' });
    expect(out).toContain('You are @bob: 1 waiting, 0 quiet.');
    expect(out).toContain('Next: parley inbox');
  });
});
