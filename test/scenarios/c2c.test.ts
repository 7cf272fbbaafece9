import { readAlias } from '../../src/protocols/c2c/shapes.ts';
import { Broker } from '../../src/protocols/c2c/broker.ts';
import { describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { C2C_COMMANDS } from '../../src/cli/table.ts';
import { brokerRoot, repoFingerprint } from '../../src/protocols/c2c/broker-root.ts';
import { until } from '../support/bch.ts';
import { aDeadProcess, anOriginalEntry, Brokerage } from '../support/c2c.ts';
import { temporaryHome } from '../support/home.ts';
import { PARLEY } from '../support/program.ts';

const SENDER = new URL('../support/c2c-send.child.ts', import.meta.url).pathname;
type Row = Record<string, unknown>;

describe('the broker of a folder', () => {
  it('is named, or below the state folder, or below the home: each by its variable alone [C2C-1]', async () => {
    const place = new Brokerage();
    const home = place.program.home;
    const plain = place.program.env;
    const named = { ...plain, C2C_MCP_BROKER_ROOT: '/some/broker' };
    const state = { ...plain, XDG_STATE_HOME: `${home}/state` };
    expect(brokerRoot({ ...state, ...named }, home)).toBe('/some/broker');
    expect(brokerRoot(state, home)).toBe(`${home}/state/c2c/repos/default/broker`);
    expect(brokerRoot(plain, home)).toBe(`${home}/.c2c/repos/default/broker`);
    for (const [env, root] of [
      [{ C2C_MCP_BROKER_ROOT: `${home}/named` }, `${home}/named`],
      [{ C2C_MCP_BROKER_ROOT: '', XDG_STATE_HOME: `${home}/state` }, `${home}/state/c2c/repos/default/broker`],
      [{ C2C_MCP_BROKER_ROOT: '' }, `${home}/.c2c/repos/default/broker`],
    ] as const) {
      await place.said(['register', 'bob'], { session: 's-bob', env });
      expect(existsSync(`${root}/registry.json`)).toBe(true);
    }
  });

  it('is the same for two clones of one upstream and for a worktree of one [C2C-2]', () => {
    const [one, other] = [aRepository('https://example.com/x/y.git'), aRepository('https://example.com/x/y.git')];
    git(one, 'commit', '--allow-empty', '-m', 'first');
    const tree = `${temporaryHome()}/tree`;
    git(one, 'worktree', 'add', tree);
    mkdirSync(`${tree}/deep/down`, { recursive: true });
    for (const folder of [one, other, tree, `${tree}/deep/down`]) expect(repoFingerprint(folder)).toBe('effba23c9e0f');
  });

  it.each([
    ['git@example.com:x/y.git'],
    ['ssh://git@[2001:db8::1]:22/x/y'],
    ['https://example.com/x/y.git?a=b;c#d'],
    ['/some where/with blanks'],
    ['https://example.com/"quoted"\\name'],
  ])('hashes the url %s as git itself reads it [C2C-2]', (url) => {
    const folder = aRepository(url);
    const read = git(folder, 'config', '--get', 'remote.origin.url').trimEnd();
    expect(read).toBe(url);
    expect(repoFingerprint(folder)).toBe(sha(read));
  });

  it('is that of the top-level path without a remote, and a common one without a repository [C2C-2]', () => {
    const folder = aRepository();
    mkdirSync(`${folder}/deep`);
    expect(repoFingerprint(`${folder}/deep`)).toBe(sha(git(folder, 'rev-parse', '--show-toplevel').trimEnd()));
    expect(repoFingerprint(temporaryHome())).toBe('default');
  });
});

describe('registering', () => {
  it.each(['C2C_MCP_SESSION_ID', 'CLAUDE_CODE_SESSION_ID', 'CLAUDE_SESSION_ID', 'CODEX_THREAD_ID', 'C2C_SESSION_ID'])(
    'knows the session by %s alone [C2C-6]',
    async (name) => {
      const place = new Brokerage();
      await place.said(['register', 'bob'], { env: { [name]: 'the-session' } });
      expect(await place.json<Row>(['whoami'], { env: { [name]: 'the-session' } })).toEqual({
        session_id: 'the-session',
        alias: 'bob',
      });
      expect(place.row('bob')['session_id']).toBe('the-session');
    },
  );

  it('believes C2C_MCP_SESSION_ID before all others [C2C-6]', async () => {
    const env = { CLAUDE_CODE_SESSION_ID: 'theirs', CODEX_THREAD_ID: 'other' };
    await expect(new Brokerage().json<Row>(['whoami'], { session: 'mine', env })).resolves.toMatchObject({
      session_id: 'mine',
    });
    expect(await new Brokerage().error(['whoami'])).toContain('C2C_MCP_SESSION_ID');
  });

  it('is, in OpenCode, the session that its plugin was installed for: beside it, or at the top of the repository [C2C-6]', async () => {
    const place = new Brokerage();
    const top = aRepository();
    mkdirSync(`${top}/.opencode`);
    mkdirSync(`${top}/deep/down`, { recursive: true });
    writeFileSync(`${top}/.opencode/c2c-plugin.json`, '{"session_id":"opencode-top","alias":"ocean"}');
    for (const cwd of [top, `${top}/deep/down`]) {
      for (const env of [{ OPENCODE: '1' }, { C2C_MCP_CLIENT_TYPE: 'opencode' }]) {
        expect(await place.json<Row>(['whoami'], { cwd, env })).toMatchObject({ session_id: 'opencode-top' });
      }
    }
    const named = { OPENCODE: '1', C2C_MCP_SESSION_ID: 'mine' };
    expect(await place.json<Row>(['whoami'], { cwd: top, env: named })).toMatchObject({ session_id: 'mine' });
    // Anyone else who works in that folder is not that session.
    expect(await place.error(['whoami'], { cwd: top })).toContain('C2C_MCP_SESSION_ID');
  });

  it('keeps what it does not know in the registry, in rows and beside them [C2C-4]', async () => {
    const place = new Brokerage();
    const theirs = { session_id: 's-old', alias: 'old', registered_at: 1.5, colour: 'red', deep: { list: [1, null] } };
    const strange = { alias: 'half a row' };
    place.plant('registry.json', [theirs, strange, 'no row at all']);
    await place.registered(['bob']);
    expect(place.rows.slice(1) as unknown[]).toEqual([theirs, strange, 'no row at all']);
    await place.said(['register', 'older'], { session: 's-old' });
    expect(place.row('older')).toMatchObject({ colour: 'red', deep: { list: [1, null] } });
  });

  it('reads a registry of any size whole [C2C-5]', async () => {
    const place = new Brokerage();
    const many = Array.from({ length: 5000 }, (_, n) => ({
      session_id: `s-${n}`,
      alias: `agent-${n}`,
      registered_at: 1,
      cwd: '/a/long/path'.repeat(10),
    }));
    place.plant('registry.json', many);
    await place.registered(['bob']);
    expect(place.rows.length).toBe(5001);
    expect((await place.json<Row[]>(['list'])).length).toBe(5001);
  });

  it('gives a session the same alias after a restart, from the environment [C2C-7]', async () => {
    const place = new Brokerage();
    const gone = String(await aDeadProcess());
    const env = { C2C_MCP_AUTO_REGISTER_ALIAS: 'bob' };
    await place.said(['register'], { session: 'first', env: { ...env, C2C_MCP_CLIENT_PID: String(process.pid) } });
    // As if its process had ended.
    place.plant('registry.json', [{ ...place.row('bob'), pid: Number(gone) }]);
    expect(await place.json<Row>(['register'], { session: 'second', env })).toEqual({
      alias: 'bob',
      session_id: 'second',
    });
    expect(place.rows.map(({ session_id }) => session_id)).toEqual(['second']);
  });

  it('never takes an alias from a live session, and says who has it and what is free [C2C-7]', async () => {
    const place = await new Brokerage().registered(['bob', 'bob-2']);
    const before = place.rows;
    const env = { C2C_MCP_AUTO_REGISTER_ALIAS: 'BOB' };
    const refusal = await place.error(['register'], { session: 'another', env });
    expect(refusal).toContain('"bob" belongs to session s-bob');
    expect(refusal).toContain(`its process ${process.pid} runs`);
    expect(refusal).toContain('"BOB-3" is free');
    expect(place.rows).toEqual(before);
  });

  it('lets one of many who ask for an alias at once have it', async () => {
    const place = new Brokerage();
    const asks = Array.from({ length: 6 }, (_, n) =>
      place.c2c(['register', 'bob'], { session: `s-${n}`, env: { C2C_MCP_CLIENT_PID: String(process.pid) } }),
    );
    const runs = await Promise.all(asks);
    expect(runs.filter(({ code }) => code === 0)).toHaveLength(1);
    expect(place.rows).toHaveLength(1);
  });

  it.each([
    ['a', true],
    ['A-b_c.9', true],
    ['_under', true],
    ['x'.repeat(64), true],
    ['c2c-systems', true],
    ['x'.repeat(65), false],
    ['', false],
    ['.dot', false],
    ['c2c', false],
    ['C2C', false],
    ['c2c-system', false],
    ['C2c-System', false],
    ['with blank', false],
    ['bøb', false],
    ['a/b', false],
    ['../a', false],
    ['a\nb', false],
  ])('of the alias %j says %j [C2C-10]', async (alias, isOne) => {
    const place = new Brokerage();
    const { code, err } = await place.c2c(['register', `--alias=${alias}`], { session: 's' });
    expect({ code, err }).toEqual(
      isOne ? { code: 0, err: '' } : { code: 1, err: expect.stringContaining('is no alias') },
    );
    expect(place.rows.map((row) => row['alias'])).toEqual(isOne ? [alias] : []);
  });

  it('takes an alias for the same in whatever case: nobody else gets it, and its mail arrives [C2C-10]', async () => {
    const place = await new Brokerage().registered(['Bob', 'alice']);
    expect(await place.error(['register', 'bOB'], { session: 'another' })).toContain('"Bob" belongs to session s-Bob');
    await place.said(['send', 'BOB', 'hello'], { session: 's-alice' });
    expect(await place.json<Row[]>(['poll-inbox'], { session: 's-Bob' })).toMatchObject([
      { to_alias: 'Bob', content: 'hello' },
    ]);
  });

  it('without an alias keeps the one that the session has [C2C-60]', async () => {
    const place = await new Brokerage().registered(['bob']);
    expect(
      await place.json<Row>(['register'], { session: 's-bob', env: { C2C_MCP_AUTO_REGISTER_ALIAS: 'x' } }),
    ).toEqual({
      alias: 'bob',
      session_id: 's-bob',
    });
    expect(await place.error(['register'], { session: 'unknown' })).toContain('say which alias');
  });

  it('joins the rooms that the environment lists, and says which it may not enter [C2C-8]', async () => {
    const place = new Brokerage();
    place.plant('rooms/closed/meta.json', {
      visibility: 'invite_only',
      invited_members: ['alice'],
      created_by: 'alice',
    });
    const env = { C2C_MCP_AUTO_JOIN_ROOMS: 'swarm-lounge, ops ,closed,' };
    const { out, err } = await place.c2c(['register', 'bob'], { session: 's-bob', env });
    expect(out).toContain('swarm-lounge, ops');
    expect(err).toContain('closed');
    const rooms = await place.json<Row[]>(['my-rooms'], { session: 's-bob' });
    expect(rooms.map(({ room_id, members }) => [room_id, members])).toEqual([
      ['ops', ['bob']],
      ['swarm-lounge', ['bob']],
    ]);
  });
});

describe('the process of a session', () => {
  it('is found by its name among those who started the command, however many shells are between', async () => {
    const place = new Brokerage();
    // A shell that is called like a client, which runs a shell, which runs the command.
    const script = `sh -c '"$0" "$@"; :' "$0" "$@"; read -r line`;
    const command = [PARLEY, 'c2c', 'register', 'bob'];
    const client = Bun.spawn(['bash', '-c', script, ...command], {
      argv0: '/opt/bin/claude',
      env: place.env({ session: 's-bob' }),
      stdin: 'pipe',
    });
    try {
      await until('bob in the registry', () => place.rows.length > 0);
      expect(place.row('bob')['pid']).toBe(client.pid);
      expect(await place.json<Row[]>(['list'])).toMatchObject([{ alias: 'bob', alive: true }]);
    } finally {
      client.kill();
      await client.exited;
    }
    expect(await place.json<Row[]>(['list'])).toMatchObject([{ alias: 'bob', alive: false }]);
  });

  it('is unknown where none of them is a client: the session is neither alive nor dead', async () => {
    const place = new Brokerage();
    await place.said(['register', 'bob'], { session: 's-bob' });
    expect(place.row('bob')).not.toHaveProperty('pid');
    expect(await place.json<Row[]>(['list'])).toMatchObject([{ alias: 'bob', alive: null }]);
  });
});

describe('a session that comes back under another id', () => {
  it('gets the mail that waits for its alias, in order, and stays in its rooms', async () => {
    const place = await new Brokerage().registered(['bob']);
    await place.said(['rooms', 'join', 'ops'], { session: 's-bob' });
    place.plant('registry.json', [{ ...place.row('bob'), pid: await aDeadProcess() }]);
    const old = [
      anOriginalEntry({ content: 'one', ts: 10 }),
      anOriginalEntry({ content: 'three', ts: 30, message_id: 'm3' }),
    ];
    place.plant('s-bob.inbox.json', old).plant('s-new.inbox.json', [anOriginalEntry({ content: 'two', ts: 20 })]);
    await place.said(['register', 'Bob'], { session: 's-new' });
    expect(place.inbox('s-new').map(({ content }) => content)).toEqual(['one', 'two', 'three']);
    expect(place.inbox('s-bob')).toEqual([]);
    expect(place.row('bob')['session_id']).toBe('s-new');
    expect(place.list('rooms/ops/members.json')).toEqual([
      expect.objectContaining({ alias: 'bob', session_id: 's-new' }),
    ]);
  });

  it('gets nothing twice if the first try died before the old place was emptied', async () => {
    const place = await new Brokerage().registered(['bob']);
    place.plant('registry.json', [{ ...place.row('bob'), pid: await aDeadProcess() }]);
    const equal = anOriginalEntry({ content: 'same' });
    const mail = [equal, equal, anOriginalEntry({ content: 'with an id', message_id: 'm1' })];
    place.plant('s-bob.inbox.json', mail).plant('s-new.inbox.json', mail);
    await place.said(['register', 'bob'], { session: 's-new' });
    expect(place.inbox('s-new')).toEqual(mail);
    expect(place.inbox('s-bob')).toEqual([]);
  });

  it('gets all that is sent while its alias moves from session to session, once', async () => {
    const place = await new Brokerage().registered(['bob']);
    const broker = new Broker(place.root, Date.now);
    const senders = ['alice', 'carol', 'dave'].map((name) =>
      Bun.spawn([process.execPath, SENDER, place.root, name, '@bob', '25'], { stderr: 'inherit' }),
    );
    const sent = Promise.all(senders.map(({ stdout }) => new Response(stdout).text()));
    let isOver = false;
    const over = sent.then(() => (isOver = true));
    let moves = 0;
    for (; !isOver; moves += 1) {
      // Anyone who has it now is gone.
      const holder = (await broker.byAlias('bob'))?.row.session_id ?? '';
      await broker.amend(holder, () => ({ pid: process.pid, pid_start_time: 1 }));
      await broker.register({ sessionId: `s-${moves}`, alias: readAlias('bob') });
      await Promise.race([over, Bun.sleep(3)]);
    }
    const bodies = (await sent).flatMap((text) => text.trimEnd().split('\n'));
    expect(bodies).toHaveLength(75);
    expect(moves).toBeGreaterThan(2);
    const mail = await place.json<Row[]>(['poll-inbox'], { session: `s-${moves - 1}` });
    expect(mail).toHaveLength(75);
    expect(new Set(mail.map(({ content }) => content))).toEqual(new Set(bodies));
  });

  it('gets what somebody had in hand for it when that is put back', async () => {
    const place = await new Brokerage().registered(['alice']);
    await place.said(['register', 'bob'], { session: 's-old' });
    await place.said(['send', 'bob', 'in hand'], { session: 's-alice' });
    const taken = await place.parley(['take', '--lease', '1h', '--json', '--as', 'bob']);
    expect(taken.code).toBe(0);
    expect(place.inbox('s-old')).toEqual([]);
    place.plant('registry.json', [{ ...place.row('bob'), pid: process.pid, pid_start_time: 1 }, place.row('alice')]);
    await place.said(['register', 'bob'], { session: 's-new' });
    const { id } = JSON.parse(taken.out) as { id: string };
    expect(await place.parley(['release', id, '--as', 'bob'])).toMatchObject({ code: 0 });
    const mail = await place.json<Row[]>(['poll-inbox'], { session: 's-new' });
    expect(mail).toMatchObject([{ content: 'in hand', message_id: id }]);
  });

  it('keeps its mail when the session takes another alias, or its first one', async () => {
    const place = await new Brokerage().registered(['alice']);
    place.plant('s-bob.inbox.json', [anOriginalEntry({ content: 'before', ts: 5 })]);
    await place.said(['register', 'bob'], { session: 's-bob' });
    await place.said(['send', 'bob', 'after'], { session: 's-alice' });
    await place.said(['register', 'robert'], { session: 's-bob' });
    const mail = await place.json<Row[]>(['poll-inbox'], { session: 's-bob' });
    expect(mail.map(({ content }) => content)).toEqual(['before', 'after']);
    expect(await place.json<Row[]>(['poll-inbox'], { session: 's-bob' })).toEqual([]);
  });

  it('gets back what a sweep of another program set aside', async () => {
    const place = new Brokerage();
    const letter = (session: string, message: Row): string =>
      `${JSON.stringify({ deleted_at: 1, from_session_id: session, message })}\n`;
    place.plant(
      'dead-letter.jsonl',
      letter('old', anOriginalEntry({ content: 'by alias', to_alias: 'BOB' })) +
        letter('elsewhere', anOriginalEntry({ to_alias: 'alice' })) +
        'half a li\n' +
        letter('s-bob', anOriginalEntry({ content: 'by session', to_alias: 'former#room' })),
    );
    await place.registered(['bob']);
    expect(place.inbox('s-bob').map(({ content }) => content)).toEqual(['by alias', 'by session']);
    expect(await place.json<Row[]>(['dead-letter'])).toHaveLength(1);
    expect(readFileSync(`${place.root}/dead-letter.jsonl`, 'utf8')).toContain('half a li\n');
  });
});

describe('a recipient', () => {
  it('that is mistyped is refused, and the nearest one is named; nothing is stored [C2C-11]', async () => {
    const place = await new Brokerage().registered(['alice', 'reviewer']);
    const refusal = await place.error(['send', 'reviwer', 'hello'], { session: 's-alice' });
    expect(refusal).toBe('no session is called "reviwer"; did you mean reviewer?');
    expect(place.inbox('s-reviewer')).toEqual([]);
    expect(await place.error(['send', 'zzz', 'hello'], { session: 's-alice' })).toContain('see `c2c list`');
  });

  it('that is known and does not run is held for, and finds it on return [C2C-11]', async () => {
    const place = await new Brokerage().registered(['alice']);
    await place.registered(['bob'], await aDeadProcess());
    place.plant('registry.json', [
      place.row('alice'),
      { ...place.row('bob'), pid: await aDeadProcess(), pid_start_time: 1 },
    ]);
    expect((await place.json<Row[]>(['list'])).map(({ alias, alive }) => [alias, alive])).toContainEqual([
      'bob',
      false,
    ]);
    await place.said(['send', 'BOB', 'for later'], { session: 's-alice' });
    expect(place.inbox('s-bob')).toMatchObject([{ from_alias: 'alice', to_alias: 'bob', content: 'for later' }]);
    await place.said(['register'], { session: 's-new', env: { C2C_MCP_AUTO_REGISTER_ALIAS: 'bob' } });
    const mail = await place.json<Row[]>(['poll-inbox'], { session: 's-new' });
    expect(mail.map(({ content }) => content)).toEqual(['for later']);
    expect(await place.json<Row[]>(['poll-inbox'], { session: 's-new' })).toEqual([]);
  });

  it('that is a room is told as one', async () => {
    const place = await new Brokerage().registered(['alice', 'bob']);
    await place.said(['rooms', 'join', 'ops'], { session: 's-bob' });
    expect(await place.error(['send', 'ops', 'hello'], { session: 's-alice' })).toContain('`c2c rooms send ops …`');
  });
});

describe('a room', () => {
  it('is joined, written to, listed, read back and left, and who was away catches up [C2C-25]', async () => {
    const place = await new Brokerage().registered(['alice', 'bob', 'carol']);
    for (const name of ['alice', 'bob', 'carol']) await place.said(['rooms', 'join', 'ops'], { session: `s-${name}` });
    // Carol's process ends.
    const rows = place.rows.map((row) => (row['alias'] === 'carol' ? { ...row, pid_start_time: 1 } : row));
    place.plant('registry.json', rows);
    const sent = await place.json<Row>(['rooms', 'send', 'ops', 'first', 'words'], { session: 's-alice' });
    expect(sent).toMatchObject({ delivered_to: ['bob', 'carol'], skipped: [], ts: expect.any(Number) });
    await place.said(['room', 'send', 'ops', 'an answer'], { session: 's-bob' });
    expect(place.inbox('s-bob')).toMatchObject([{ from_alias: 'alice', to_alias: 'bob#ops', content: 'first words' }]);

    const rooms = await place.json<Row[]>(['rooms', 'list']);
    expect(rooms).toMatchObject([
      { room_id: 'ops', member_count: 3, members: ['alice', 'bob', 'carol'], alive_members: ['alice', 'bob'] },
    ]);
    expect(await place.json<Row[]>(['my-rooms'], { session: 's-alice' })).toEqual(rooms);
    const past = await place.json<Row[]>(['rooms', 'history', 'ops']);
    expect(past.map(({ from_alias, content }) => [from_alias, content])).toEqual([
      ['alice', 'first words'],
      ['bob', 'an answer'],
    ]);
    expect(await place.json<Row[]>(['rooms', 'history', 'ops', '--limit', '1'])).toEqual(past.slice(1));

    await place.said(['register', 'carol'], { session: 's-carol-again' });
    const caught = await place.json<Row[]>(['poll-inbox'], { session: 's-carol-again' });
    expect(caught.map(({ from_alias, content }) => [from_alias, content])).toEqual([
      ['alice', 'first words'],
      ['bob', 'an answer'],
    ]);

    await place.said(['rooms', 'leave', 'ops'], { session: 's-bob' });
    await place.said(['rooms', 'send', 'ops', 'without bob'], { session: 's-alice' });
    expect(place.inbox('s-bob').map(({ content }) => content)).toEqual(['first words']);
    expect(await place.json<Row[]>(['my-rooms'], { session: 's-bob' })).toEqual([]);
    expect(await place.error(['rooms', 'send', 'ops', 'still here'], { session: 's-bob' })).toContain('join it first');
  });

  it('tells who joins what was said before, also when nobody else was there', async () => {
    const place = await new Brokerage().registered(['alice', 'bob']);
    await place.said(['rooms', 'join', 'ops'], { session: 's-alice' });
    expect(await place.json<Row>(['rooms', 'send', 'ops', 'alone'], { session: 's-alice' })).toMatchObject({
      delivered_to: [],
    });
    const joined = await place.json<{ members: Row[]; history: Row[] }>(['rooms', 'join', '#ops'], {
      session: 's-bob',
    });
    expect(joined.members.map(({ alias }) => alias)).toEqual(['alice', 'bob']);
    expect(joined.history).toMatchObject([{ from_alias: 'alice', content: 'alone' }]);
    expect(place.inbox('s-bob')).toEqual([]);
  });

  it('that does not exist is refused with the nearest one', async () => {
    const place = await new Brokerage().registered(['alice']);
    await place.said(['rooms', 'join', 'swarm-lounge'], { session: 's-alice' });
    const typo = ['rooms', 'send', 'swarm-loung', 'hello'];
    expect(await place.error(typo, { session: 's-alice' })).toContain('did you mean swarm-lounge?');
    expect(await place.error(['rooms', 'join', '../up'], { session: 's-alice' })).toContain('is no room');
  });

  it('for invited members only keeps others out', async () => {
    const place = await new Brokerage().registered(['alice', 'bob']);
    place.plant('rooms/closed/meta.json', { visibility: 'invite_only', invited_members: ['Alice'], created_by: 'x' });
    await place.said(['rooms', 'join', 'closed'], { session: 's-alice' });
    expect(await place.error(['rooms', 'join', 'closed'], { session: 's-bob' })).toContain(
      'only invited members may join',
    );
  });
});

describe('parley, in the same repository,', () => {
  it('writes to a session of c2c, traces it and lists it with its home', async () => {
    const place = new Brokerage();
    const repository = aRepository('https://example.com/x/y.git');
    const as = { cwd: repository, env: { C2C_MCP_BROKER_ROOT: '' } };
    const root = `${place.program.home}/.c2c/repos/effba23c9e0f/broker`;
    await place.said(['register', 'bob'], { ...as, session: 's-bob' });
    await place.parley(['init', 'me'], as);
    const sent = await place.parley(['send', '@bob', 'from outside', '--json'], as);
    expect({ code: sent.code, err: sent.err }).toEqual({ code: 0, err: '' });
    const inbox = JSON.parse(readFileSync(`${root}/s-bob.inbox.json`, 'utf8')) as Row[];
    expect(inbox).toMatchObject([{ from_alias: 'me', to_alias: 'bob', content: 'from outside' }]);
    const { id } = JSON.parse(sent.out) as { id: string };
    expect((await place.parley(['trace', id], as)).out).toContain('@bob');
    const agents = JSON.parse((await place.parley(['agents', '--json'], as)).out) as Row[];
    expect(agents).toContainEqual(expect.objectContaining({ name: 'bob', home: 'c2c' }));
    expect((await place.parley(['agents'], as)).out).toContain('@bob%c2c');
    // In another folder nothing is sent by guess.
    const elsewhere = { ...as, cwd: temporaryHome() };
    expect((await place.parley(['send', '@bob', 'lost'], elsewhere)).err).toContain(
      '@bob is a session of c2c at the broker of another folder; type: C2C_MCP_BROKER_ROOT=',
    );
    expect((await place.parley(['send', '@bob%c2c', 'again'], as)).code).toBe(0);
    const mail = await place.json<Row[]>(['poll-inbox'], { ...as, session: 's-bob' });
    expect(mail.map(({ content }) => content)).toEqual(['from outside', 'again']);
    expect((await place.parley(['trace', id], as)).out).toContain('settled');
  });

  it('knows an answer from another home for one: it may be answered and need not be', async () => {
    const place = await new Brokerage().registered(['bob']);
    await place.parley(['init', 'me']);
    const asked = await place.parley(['send', '@bob%c2c', 'which port?', '--intent', 'question', '--json']);
    const { id } = JSON.parse(asked.out) as { id: string };
    const answered = await place.parley(['reply', id, 'it is 8080', '--as', 'bob']);
    expect(answered.out).toContain('(may respond)');
  });

  it('writes to a room of c2c', async () => {
    const place = await new Brokerage().registered(['alice', 'bob']);
    for (const name of ['alice', 'bob']) await place.said(['rooms', 'join', 'ops'], { session: `s-${name}` });
    await place.parley(['init', 'me']);
    const { code, err } = await place.parley(['send', '#ops%c2c', 'to all']);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(place.inbox('s-bob')).toMatchObject([{ from_alias: 'me', to_alias: 'bob#ops', content: 'to all' }]);
    expect(await place.json<Row[]>(['rooms', 'history', 'ops'])).toMatchObject([
      { from_alias: 'me', content: 'to all' },
    ]);
  });
});

describe('c2c list', () => {
  it('tells of each session its alias, id, whether it runs and when it was last seen [C2C-24]', async () => {
    const place = await new Brokerage().registered(['runs']);
    const dead = await aDeadProcess();
    const { pid, pid_start_time } = place.row('runs');
    place.plant('registry.json', [
      ...place.rows,
      { session_id: 's1', alias: 'ended', pid: dead, pid_start_time: 1, registered_at: 5, last_activity_ts: 9.5 },
      { session_id: 's2', alias: 'other-process', pid, pid_start_time: Number(pid_start_time) + 1 },
      { session_id: 's3', alias: 'no-process', registered_at: 7 },
      { session_id: 's4', alias: 'no-start', pid },
    ]);
    const rows = await place.json<Row[]>(['list']);
    expect(rows.map(({ alias, session_id, alive }) => [alias, session_id, alive])).toEqual([
      ['runs', 's-runs', true],
      ['ended', 's1', false],
      ['other-process', 's2', false],
      ['no-process', 's3', null],
      ['no-start', 's4', null],
    ]);
    expect(rows.slice(1).map(({ last_seen }) => last_seen)).toEqual([9.5, 0, 7, 0]);
    expect(Math.abs(Number(rows[0]?.['last_seen']) - Date.now() / 1000)).toBeLessThan(3600);
    expect(await place.said(['list'])).toMatch(/^runs +alive .*\nended +gone /);
  });

  it('is an empty list where nobody is', async () => {
    expect(await new Brokerage().json<Row[]>(['list'])).toEqual([]);
  });
});

describe('a question to people', () => {
  const asked = ['open-pending-reply', 'per_1', '--kind', 'permission', '--supervisors', 'boss,other'];
  const check = (place: Brokerage, from: string, as = { session: 's-bob' }, id = 'per_1'): Promise<Row> =>
    place.json<Row>(['check-pending-reply', id, from], as);

  it('lets nobody but the user at a terminal write as a supervisor [C2C-60]', async () => {
    const place = await new Brokerage().registered(['agent']);
    await place.byUser(['repo', 'set', 'supervisors', 'boss']);
    expect(
      await place.error(['send', 'agent', 'permission:p:approve-once', '--from', 'Boss'], { session: 's-x' }),
    ).toBe(
      '"Boss" answers for the user. A client started this process (C2C_MCP_SESSION_ID is set). Use another alias.',
    );
    expect(await place.error(['send', 'agent', 'permission:p:approve-once', '--from', 'boss'])).toBe(
      '"boss" answers for the user. This process has no terminal. Use another alias.',
    );
    expect(place.inbox('s-agent')).toEqual([]);
    await place.byUser(['send', 'agent', 'go on', '--from', 'boss']);
    expect(place.inbox('s-agent')).toHaveLength(1);
  });

  it('can be answered only by whom the user named by hand, and who was asked [C2C-60]', async () => {
    const place = await new Brokerage().registered(['bob']);
    expect(await place.json<Row>(asked, { session: 's-bob' })).toMatchObject({
      ok: true,
      perm_id: 'per_1',
      ttl_seconds: 600,
    });
    expect(await check(place, 'boss')).toMatchObject({ valid: false, requester_session_id: 's-bob' });
    await place.byUser(['repo', 'set', 'supervisors', 'Boss,stranger']);
    expect(await check(place, 'boss')).toEqual({ valid: true, requester_session_id: 's-bob', error: null });
    for (const from of ['other', 'stranger', 'bob']) expect(await check(place, from)).toMatchObject({ valid: false });
  });

  it('is no longer open when it is unknown, or when its time is over: that is an answer, not a failure [C2C-60]', async () => {
    const place = await new Brokerage().registered(['bob']);
    await place.byUser(['repo', 'set', 'supervisors', 'boss']);
    expect(await check(place, 'boss')).toMatchObject({ valid: false, requester_session_id: null });
    await place.said(asked, { session: 's-bob', env: { C2C_PERMISSION_TTL: '0.001' } });
    expect(await check(place, 'boss')).toMatchObject({ valid: false, requester_session_id: null });
    expect(await place.error(asked, { session: 'nobody' })).toContain('c2c register');
  });

  it('knows the supervisors of .c2c/repo.json only while the user trusts this very file [C2C-60]', async () => {
    const place = await new Brokerage().registered(['bob']);
    const folder = `${place.program.home}/.c2c`;
    mkdirSync(folder);
    writeFileSync(`${folder}/repo.json`, '{"permission_supervisors": ["boss"], "more": [1]}');
    await place.said(asked, { session: 's-bob' });
    expect(await check(place, 'boss')).toMatchObject({ valid: false });
    expect(await place.said(['repo', 'show'])).toContain('names boss and does not count: it came with the repository');
    expect((await place.program.byPerson(['trust'])).out).toContain('supervisors boss');
    expect(await check(place, 'boss')).toMatchObject({ valid: true });
    await place.byUser(['repo', 'set', 'supervisors', 'other']);
    expect(readFileSync(`${folder}/repo.json`, 'utf8')).toBe('{"permission_supervisors": ["boss"], "more": [1]}');
    expect(await place.json<Row>(['repo', 'show'])).toMatchObject({ supervisors: ['other', 'boss'] });
    writeFileSync(`${folder}/repo.json`, '{"permission_supervisors": ["boss", "eve"]}');
    for (const name of ['boss', 'eve']) expect(await check(place, name)).toMatchObject({ valid: false });
    expect(await place.said(['repo', 'show'])).toContain('it has changed since you trusted it');
    writeFileSync(`${folder}/repo.json`, '{ half');
    expect(await check(place, 'boss')).toMatchObject({ valid: false });
    expect(await check(place, 'other')).toMatchObject({ valid: true });
    expect(await place.said(['repo', 'show'])).toContain('does not count: it is no JSON');
  });
});

describe('what a session says of itself', () => {
  it('is being compacted, and is so no longer [C2C-60]', async () => {
    const place = await new Brokerage().registered(['bob']);
    expect(await place.json<Row>(['set-compact', '--reason', 'long'], { session: 's-bob' })).toMatchObject({
      ok: true,
    });
    expect(place.row('bob')['compacting']).toMatchObject({ reason: 'long' });
    expect(await place.json<Row>(['clear-compact'], { session: 's-bob' })).toEqual({ ok: true });
    expect(place.row('bob')).not.toHaveProperty('compacting');
    expect(await place.error(['clear-compact'], { session: 'nobody' })).toContain('c2c register');
  });

  it('wants no disturbance, for a time', async () => {
    const place = await new Brokerage().registered(['bob']);
    const until = Math.floor(Date.now() / 1000) + 1000;
    const on = await place.json<Row>(['dnd', 'on', '--until', String(until)], { session: 's-bob' });
    expect(on).toMatchObject({ ok: true, dnd: true, dnd_until: until });
    expect(place.row('bob')).toMatchObject({ dnd: true, dnd_until: until });
    expect(await place.json<Row>(['set-dnd', 'off'], { session: 's-bob' })).toEqual({ ok: true, dnd: false });
    expect(place.row('bob')).not.toHaveProperty('dnd');
  });
});

it('c2c help names every command', async () => {
  const help = await new Brokerage().said(['help']);
  const isNamed = (name: string): boolean => new RegExp(`(?<![a-z-])${name}(?![a-z-])`).test(help);
  expect(C2C_COMMANDS.filter(({ name }) => !isNamed(name) && name !== 'room')).toEqual([]);
});

function aRepository(origin?: string): string {
  const folder = temporaryHome();
  git(folder, 'init', '-q');
  if (origin !== undefined) git(folder, 'remote', 'add', 'origin', origin);
  return folder;
}

function git(folder: string, ...args: string[]): string {
  const person = ['-c', 'user.name=a', '-c', 'user.email=a@example.com'];
  const run = Bun.spawnSync(['git', ...person, ...args], {
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', HOME: folder },
  });
  if (run.exitCode !== 0) throw new Error(run.stderr.toString());
  return run.stdout.toString();
}

function sha(text: string): string {
  return new Bun.CryptoHasher('sha256').update(text).digest('hex').slice(0, 12);
}
