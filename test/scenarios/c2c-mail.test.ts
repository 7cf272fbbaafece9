import { describe, expect, it } from 'bun:test';
import { existsSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { aBrokenPipe, anOriginalEntry, Brokerage } from '../support/c2c.ts';
import { temporaryHome } from '../support/home.ts';
import { PARLEY } from '../support/program.ts';

const STRACE = Bun.which('strace');

const alice = { session: 's-alice' };
const bob = { session: 's-bob' };

/** Two agents in two terminals: each has a session, an alias and the program. */
async function twoAgents(): Promise<Brokerage> {
  return new Brokerage().registered(['alice', 'bob']);
}

interface Taken {
  from_alias: string;
  to_alias: string;
  content: string;
  ts: number;
  message_id: string;
}

it('lets two agents write to each other, and tells what became of it [C2C-24]', async () => {
  const c2c = await twoAgents();
  const asked = await c2c.json<Taken>(['send', 'bob', 'is the build red?\nmain, since noon'], alice);
  expect(asked).toMatchObject({ queued: true, from_alias: 'alice', to_alias: 'bob', proven: 'stored' });
  const [got, ...others] = await c2c.json<Taken[]>(['poll-inbox', '--file-fallback', '--session-id', 's-bob']);
  expect(others).toEqual([]);
  expect(got).toEqual({
    from_alias: 'alice',
    to_alias: 'bob',
    content: 'is the build red?\nmain, since noon',
    ts: asked.ts,
    message_id: asked.message_id,
  });
  await c2c.said(['send', 'alice', 'it is; I look into it'], bob);
  expect(await c2c.said(['poll-inbox'], alice)).toMatch(
    /^<c2c event="message" from="bob" alias="alice" to="alice" ts="[^"]*" message_id="[^"]*">\nit is; I look into it\n<\/c2c>\n$/,
  );
  expect(await c2c.said(['history'], bob)).toMatch(
    /^\[\d{4}-\d\d-\d\d \d\d:\d\d\] <alice> is the build red\? main, since noon\n$/,
  );
  const { out } = await c2c.parley(['trace', asked.message_id, '--json']);
  expect(JSON.parse(out)).toMatchObject({
    message: { from: 'alice', body: 'is the build red?\nmain, since noon' },
    copies: [{ mailbox: 'bob', state: 'settled', disposition: 'acknowledged', settledBy: { session: 's-bob' } }],
  });
});

it('has a command for each tool, with JSON for programs [C2C-24]', async () => {
  const c2c = await twoAgents();
  const aNumber = expect.any(Number);
  const carol = { alias: 'carol', session_id: 's-carol' };
  expect(await c2c.json(['register', 'carol'], { session: 's-carol' })).toEqual(carol);
  expect(await c2c.json(['whoami'], { session: 's-carol' })).toEqual(carol);
  expect(await c2c.said(['whoami'], { session: 's-carol' })).toContain('carol');
  const rows = await c2c.json<Record<string, unknown>[]>(['list']);
  expect(rows).toContainEqual(
    expect.objectContaining({ alias: 'bob', session_id: 's-bob', alive: true, last_seen: aNumber }),
  );
  expect(rows.map(({ alias }) => String(alias)).toSorted()).toEqual(['alice', 'bob', 'carol']);
  const one = await c2c.json<Taken>(['send', 'bob', 'one'], alice);
  const { sent_to, message_ids } = await c2c.json<{ sent_to: string[]; message_ids: Record<string, string> }>(
    ['send-all', 'all'],
    alice,
  );
  expect(sent_to.toSorted()).toEqual(['bob', 'carol']);
  const entries = [
    { from_alias: 'alice', to_alias: 'bob', content: 'one', ts: one.ts, message_id: one.message_id },
    { from_alias: 'alice', to_alias: 'bob', content: 'all', ts: aNumber, message_id: message_ids['bob'] },
  ];
  expect(await c2c.json(['peek-inbox'], bob)).toEqual(entries);
  expect(await c2c.json(['poll-inbox', '--file-fallback', '--session-id', 's-bob'])).toEqual(entries);
  const past = entries.toReversed().map((entry) => ({ ...entry, drained_at: aNumber }));
  expect(await c2c.json(['history'], bob)).toEqual(past);
  expect(await c2c.json(['history', '--limit', '1', '--session-id', 's-bob'])).toEqual(past.slice(0, 1));
});

describe('c2c send', () => {
  it.each([
    ['one argument with lines', ['a\nb\n\nc'], '', 'a\nb\n\nc'],
    ['several words', ['a', 'b  c'], '', 'a b  c'],
    ['a list', ['- one\n- two'], '', '- one\n- two'],
    ['what looks like an option', ['--', '--json'], '', '--json'],
    ['from stdin', ['-'], 'piped\ntext\n', 'piped\ntext'],
  ])('takes the text as it is: %s', async (_what, words, stdin, content) => {
    const c2c = await twoAgents();
    const child = Bun.spawn([PARLEY, 'send', 'bob', ...words], {
      argv0: 'c2c',
      env: c2c.env(alice),
      stdin: new Blob([stdin]),
      stderr: 'inherit',
    });
    expect(await child.exited).toBe(0);
    expect(c2c.inbox('s-bob')).toMatchObject([{ content }]);
  });

  it('refuses a mistyped alias and names the nearest, and stores nothing [C2C-11]', async () => {
    const c2c = await twoAgents();
    expect(await c2c.error(['send', 'bbo', 'hello'], alice)).toBe('no session is called "bbo"; did you mean bob?');
    expect(existsSync(`${c2c.root}/bbo.inbox.json`)).toBe(false);
  });

  it('holds mail for a session that does not run, and says so [C2C-11]', async () => {
    const c2c = await new Brokerage().registered(['alice']);
    await registeredAndGone(c2c, 'bob');
    expect(await c2c.json(['send', 'bob', 'when you are back'], alice)).toMatchObject({ queued_offline: true });
    await c2c.registered(['bob']);
    expect(await c2c.json(['poll-inbox'], bob)).toMatchObject([{ content: 'when you are back' }]);
  });

  it('speaks for nobody else: not as a session that runs, but as one that is gone', async () => {
    const c2c = await new Brokerage().registered(['alice', 'bob']);
    await registeredAndGone(c2c, 'gone');
    expect(await c2c.error(['send', 'bob', 'x', '--from', 'ALICE'])).toContain(
      '"alice" is the alias of another session',
    );
    expect(await c2c.error(['send', 'alice', 'x', '--from', 'alice'], bob)).toContain(
      'another session that runs (s-alice)',
    );
    expect(await c2c.json(['send', 'bob', 'x', '--from', 'gone'])).toMatchObject({ from_alias: 'gone' });
    expect(await c2c.json(['send', 'bob', 'x'], { env: { C2C_MCP_AUTO_REGISTER_ALIAS: 'newcomer' } })).toMatchObject({
      from_alias: 'newcomer',
    });
    expect(await c2c.error(['send', 'bob', 'x'], { session: 'stranger' })).toContain('c2c register');
  });

  it('refuses what makes no sense: to oneself, without a text, as ephemeral', async () => {
    const c2c = await twoAgents();
    expect(await c2c.error(['send', 'Alice', 'x'], alice)).toContain('your own alias');
    expect(await c2c.error(['send', 'bob'], alice)).toContain('text is empty');
    expect(await c2c.error(['send', 'bob', 'x', '--ephemeral'], alice)).toContain('ephemeral');
    expect(await c2c.error(['send', 'bob', 'x', '--urgent', '--fail'], alice)).toContain('only one of');
    expect(c2c.inbox('s-bob')).toEqual([]);
  });

  it('writes to everybody who may be there with send-all, once each [C2C-24]', async () => {
    const c2c = await new Brokerage().registered(['alice', 'bob', 'carol', 'dan']);
    await registeredAndGone(c2c, 'gone');
    const sent = await c2c.json<{ sent_to: string[] }>(['send-all', 'lunch', '--exclude', 'DAN,'], alice);
    expect({ ...sent, sent_to: sent.sent_to.toSorted() }).toMatchObject({
      sent_to: ['bob', 'carol'],
      skipped: [{ alias: 'gone', reason: 'not_alive' }],
    });
    expect(c2c.inbox('s-dan')).toEqual([]);
    expect(c2c.inbox('s-carol')).toMatchObject([{ content: 'lunch', to_alias: 'carol' }]);
  });
});

describe('c2c poll-inbox', () => {
  it('archives what it takes with the time of sending, and empties the inbox [C2C-20] [C2C-21]', async () => {
    const c2c = await twoAgents();
    c2c.plant('s-bob.inbox.json', [anOriginalEntry(), anOriginalEntry({ content: 'two', ts: 1_770_000_001 })]);
    const taken = await c2c.json<Taken[]>(['poll-inbox'], bob);
    expect(taken).toMatchObject([
      { from_alias: 'script', to_alias: 'bob', content: 'hello', ts: 1_770_000_000.25, message_id: expect.any(String) },
      { content: 'two' },
    ]);
    expect(readFileSync(`${c2c.root}/s-bob.inbox.json`, 'utf8')).toBe('[]');
    const lines = readFileSync(`${c2c.root}/archive/s-bob.jsonl`, 'utf8').trim().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toMatchObject(
      taken.map((one) => ({ ...one, drained_by: 'cli_poll', session_id: 's-bob', drained_at: expect.any(Number) })),
    );
    expect(await c2c.json(['poll-inbox'], bob)).toEqual([]);
    expect(await c2c.said(['poll-inbox'], bob)).toBe('(no messages)\n');
  });

  it('takes 10,000 messages of 1 KB at once, each whole and once [C2C-5]', async () => {
    const c2c = await twoAgents();
    const body = 'x'.repeat(1000);
    const waiting = Array.from({ length: 10_000 }, (_, n) => anOriginalEntry({ content: `${n} ${body}`, ts: n + 1 }));
    c2c.plant('s-bob.inbox.json', waiting);
    const taken = await c2c.json<Taken[]>(['poll-inbox'], bob);
    expect(taken.map(({ content }) => content)).toEqual(waiting.map(({ content }) => String(content)));
    expect(await c2c.json(['poll-inbox'], bob)).toEqual([]);
  });

  it('owes an answer until it writes back: that is one, also if nothing says so', async () => {
    const c2c = await new Brokerage().registered(['alice', 'bob']);
    const [alice, bob] = [{ session: 's-alice' }, { session: 's-bob' }];
    const { message_id } = await c2c.json<{ message_id: string }>(['send', 'bob', 'which port?'], alice);
    await c2c.said(['poll-inbox'], bob);
    expect((await c2c.parley(['owe', '--as', 'bob'], bob)).out).toContain('which port?');
    const answer = await c2c.json<{ message_id: string }>(['send', 'Alice', 'it is 8080'], bob);
    expect((await c2c.parley(['owe', '--as', 'bob'], bob)).out).not.toContain('which port?');
    expect((await c2c.parley(['trace', message_id, '--verbose'], bob)).out).toContain(`reply ${answer.message_id}`);
    // An answer to one's own words may be answered, and need not be.
    await c2c.said(['poll-inbox'], alice);
    expect((await c2c.parley(['owe', '--as', 'alice'], alice)).out).not.toContain('it is 8080');
  });

  it.each([
    ['an inbox', 's-bob.inbox.json', ['poll-inbox'], '(no messages)\n'],
    ['the registry', 'registry.json', ['list'], /^nobody is registered here/],
  ])('says that %s was broken also where nothing could be saved', async (_what, name, command, said) => {
    const c2c = await new Brokerage().registered(['bob']);
    c2c.plant(name, '[{"broken');
    const { out, err } = await c2c.c2c(command, { session: 's-bob' });
    expect(out).toMatch(said);
    expect(err).toMatch(/was broken \(.*\); what could be recovered is in use, and the broken file is kept as /);
    expect(c2c.list(name)).toEqual([]);
    expect(await c2c.said(command, { session: 's-bob' })).toMatch(said);
  });

  it('takes what can be saved of a broken inbox, and says where the rest is kept', async () => {
    const c2c = await twoAgents();
    const broken = `[${JSON.stringify(anOriginalEntry())},{"from_alias":"script","to_al`;
    c2c.plant('s-bob.inbox.json', broken);
    const { out, err, code } = await c2c.c2c(['poll-inbox', '--json'], bob);
    expect({ code, taken: JSON.parse(out) }).toMatchObject({ code: 0, taken: [{ content: 'hello' }] });
    const [, copy = ''] = /kept as (\S+)\n$/.exec(err) ?? [];
    expect(readFileSync(copy, 'utf8')).toBe(broken);
    expect(await c2c.c2c(['poll-inbox', '--json'], bob)).toEqual({ out: '[]\n', err: '', code: 0 });
  });

  it('leaves the mail where it is if nobody reads what it prints', async () => {
    const c2c = await twoAgents();
    await c2c.said(['send', 'bob', 'hello'], alice);
    const pipe = aBrokenPipe();
    const child = Bun.spawn([PARLEY, 'poll-inbox', '--json'], {
      argv0: 'c2c',
      env: c2c.env(bob),
      stdout: pipe.fd,
      stderr: 'ignore',
    });
    expect(await child.exited).not.toBe(0);
    pipe.close();
    expect(c2c.inbox('s-bob')).toMatchObject([{ content: 'hello' }]);
    expect(await c2c.json(['poll-inbox'], bob)).toMatchObject([{ content: 'hello' }]);
  });

  it.skipIf(!STRACE)('opens no ledger where nothing waits', async () => {
    const c2c = await twoAgents();
    await c2c.said(['send', 'bob', 'hello'], alice);
    await c2c.said(['poll-inbox'], bob);
    const opened = async (): Promise<boolean> => {
      const log = `${c2c.program.home}/opened`;
      // The first look after a change of the ledger notes that all is in order, once that change is older than a clock's tick.
      await Bun.sleep(30);
      const child = Bun.spawn(
        [STRACE ?? '', '-f', '-e', 'trace=/open', '-o', log, PARLEY, 'c2c', 'poll-inbox', '--json'],
        { env: c2c.env(bob), stdout: 'pipe' },
      );
      expect(await new Response(child.stdout).text()).toBe('[]\n');
      return readFileSync(log, 'utf8').includes('/ledger.db');
    };
    await opened();
    expect(await opened()).toBe(false);
    // Somebody wrote into the ledger: anyone who looks next makes sure.
    await c2c.said(['send', 'alice', 'hi'], bob);
    expect(await opened()).toBe(true);
    expect(await opened()).toBe(false);
  });

  it.skipIf(!STRACE)('finds a message whose send was killed after it was accepted [C2C-20]', async () => {
    const c2c = await twoAgents();
    await c2c.said(['send', 'bob', 'before'], alice);
    for (let n = 0; n < 3; n += 1) await c2c.said(['poll-inbox'], bob);
    const inbox = readFileSync(`${c2c.root}/s-bob.inbox.json`, 'utf8');
    // The first file that a send replaces is the inbox.
    expect((await killedAt(c2c, 's-alice', '/^rename:when=1', ['send', 'bob', 'hello'])).code).not.toBe(0);
    expect(readFileSync(`${c2c.root}/s-bob.inbox.json`, 'utf8')).toBe(inbox);
    expect(await c2c.json(['poll-inbox'], bob)).toMatchObject([{ content: 'hello' }]);
    expect(await c2c.json(['poll-inbox'], bob)).toEqual([]);
  });

  it.skipIf(!STRACE)('loses nothing if it is killed at any change of a file [C2C-20]', async () => {
    for (let nth = 1; nth < 20; nth += 1) {
      const c2c = new Brokerage();
      c2c.plant('registry.json', [{ session_id: 's-bob', alias: 'bob' }]);
      c2c.plant('s-bob.inbox.json', [anOriginalEntry({ message_id: 'm-1' }), anOriginalEntry({ message_id: 'm-2' })]);
      const { code, out } = await killedAt(c2c, 's-bob', `/^(rename|unlink|fsync):when=${nth}`, [
        'poll-inbox',
        '--json',
      ]);
      const first = out === '' ? [] : (JSON.parse(out) as Taken[]);
      const again = await c2c.json<Taken[]>(['poll-inbox'], bob);
      const seen = [...first, ...again].map(({ message_id }) => message_id);
      expect([...new Set(seen)].toSorted()).toEqual(['m-1', 'm-2']);
      expect(await c2c.json(['poll-inbox'], bob)).toEqual([]);
      const told = await c2c.json<Taken[]>(['history'], bob);
      expect(told.map(({ message_id }) => message_id).toSorted()).toEqual(['m-1', 'm-2']);
      if (code === 0) return;
    }
    throw new Error('it never came to its end');
  });
});

describe('c2c peek-inbox', () => {
  it('shows what waits and changes nothing, neither a byte nor a time [C2C-22]', async () => {
    const c2c = await twoAgents();
    await c2c.said(['send', 'bob', 'one'], alice);
    c2c.plant('s-bob.inbox.json', [...c2c.inbox('s-bob'), anOriginalEntry({ content: 'foreign' })]);
    utimesSync(`${c2c.root}/s-bob.inbox.json`, 1_770_000_000, 1_770_000_000);
    const state = () => [
      readFileSync(`${c2c.root}/s-bob.inbox.json`, 'utf8'),
      statSync(`${c2c.root}/s-bob.inbox.json`).mtimeMs,
    ];
    const before = state();
    const peeked = await c2c.json<Taken[]>(['peek-inbox'], bob);
    expect(peeked.map(({ content }) => content).toSorted()).toEqual(['foreign', 'one']);
    expect(await c2c.json(['poll-inbox', '--peek'], bob)).toEqual(peeked);
    expect(state()).toEqual(before);
    expect(await c2c.json(['poll-inbox'], bob)).toEqual(peeked);
    expect(await c2c.json(['peek-inbox'], bob)).toEqual([]);
  });
});

describe('c2c history', () => {
  it('is told newest first, each message once, and forgotten by age [C2C-26]', async () => {
    const c2c = await twoAgents();
    const now = Date.now() / 1000;
    const line = (n: number, days: number): string =>
      JSON.stringify({ ...anOriginalEntry({ content: `${n}` }), session_id: 's-bob', drained_at: now - days * 86_400 });
    c2c.plant('archive/s-bob.jsonl', `${line(1, 40)}\n${line(2, 31)}\nno JSON\n${line(3, 29)}\n`);
    c2c.plant('archive/s-gone.jsonl', `${line(4, 100)}\n`);
    expect((await c2c.json<Taken[]>(['history'], bob)).map(({ content }) => content)).toEqual(['3', '2', '1']);
    expect(await c2c.json(['history', '--limit', '1'], bob)).toMatchObject([{ content: '3' }]);
    expect(await c2c.said(['history', '--prune', '--dry-run'])).toMatch(/^would remove 3 messages taken before /);
    expect(await c2c.json<Taken[]>(['history'], bob)).toHaveLength(3);
    expect(await c2c.said(['history', '--prune'])).toMatch(/^removed 3 messages/);
    expect((await c2c.json<Taken[]>(['history'], bob)).map(({ content }) => content)).toEqual(['3']);
    expect(await c2c.json(['history', '--prune', '--older-than', '1d'])).toMatchObject({ pruned: 1 });
    expect(await c2c.said(['history'], bob)).toBe('(nothing was taken yet)\n');
    expect(await c2c.error(['history', '--prune', '--older-than', 'yesterday'])).toContain('not a span of time');
  });
});

describe('c2c oc-plugin drain-inbox-to-spool [C2C-60]', () => {
  const drain = (path: string): string[] => ['oc-plugin', 'drain-inbox-to-spool', '--spool-path', path];

  it('moves what waits into the spool and answers with everything that stands there', async () => {
    const c2c = await twoAgents();
    const path = `${c2c.program.home}/.opencode/c2c-plugin-spool.json`;
    expect(await c2c.json(drain(path), bob)).toEqual({
      ok: true,
      session_id: 's-bob',
      spool_path: path,
      count: 0,
      messages: [],
    });
    expect(existsSync(path)).toBe(false);
    await c2c.said(['send', 'bob', 'one'], alice);
    await c2c.json(drain(path), bob);
    await c2c.said(['send', 'bob', 'two'], alice);
    const result = await c2c.json<{ messages: Taken[] }>(drain(path), bob);
    expect(result).toMatchObject({
      ok: true,
      count: 2,
      messages: [
        { from_alias: 'alice', to_alias: 'bob', content: 'one' },
        { from_alias: 'alice', to_alias: 'bob', content: 'two' },
      ],
    });
    expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual(result.messages);
    expect(await c2c.json(drain(path), bob)).toEqual(result);
    expect(c2c.inbox('s-bob')).toEqual([]);
    expect(readFileSync(`${c2c.root}/archive/s-bob.jsonl`, 'utf8')).toContain('"drained_by":"oc_plugin"');
  });

  it('keeps what the plugin wrote into its spool, without ids as it is, and a broken spool beside', async () => {
    const c2c = await twoAgents();
    const path = `${c2c.program.home}/spool.json`;
    const old = { from_alias: 'x', to_alias: 'bob', content: 'same' };
    writeFileSync(path, JSON.stringify([old, old]));
    await c2c.said(['send', 'bob', 'new'], alice);
    expect(await c2c.json(drain(path), bob)).toMatchObject({ count: 3, messages: [old, old, { content: 'new' }] });
    writeFileSync(path, '[{"from_alias":"x"');
    await c2c.said(['send', 'bob', 'newer'], alice);
    const { out, err, code } = await c2c.c2c([...drain(path), '--json'], bob);
    const { broken, messages } = JSON.parse(out) as { broken: string; messages: Taken[] };
    expect({ code, messages }).toMatchObject({ code: 0, messages: [{ content: 'newer' }] });
    expect(err).toContain(broken);
    expect(readFileSync(broken, 'utf8')).toBe('[{"from_alias":"x"');
  });

  it('leaves the inbox as it is if the spool cannot be written', async () => {
    const c2c = await twoAgents();
    await c2c.said(['send', 'bob', 'one'], alice);
    writeFileSync(`${c2c.program.home}/file`, '');
    const { out, err, code } = await c2c.c2c([...drain(`${c2c.program.home}/file/spool.json`), '--json'], bob);
    expect(JSON.parse(out)).toMatchObject({ ok: false, error: expect.stringContaining('cannot be written') });
    expect({ code, lines: err.split('\n').length }).toEqual({ code: 1, lines: 2 });
    expect(c2c.inbox('s-bob')).toMatchObject([{ content: 'one' }]);
  });

  it.skipIf(!STRACE)('loses nothing and doubles nothing if it is killed at any change of a file', async () => {
    for (let nth = 1; nth < 20; nth += 1) {
      const c2c = new Brokerage();
      const path = `${c2c.program.home}/spool.json`;
      c2c.plant('registry.json', [{ session_id: 's-bob', alias: 'bob' }]);
      c2c.plant('s-bob.inbox.json', [anOriginalEntry({ message_id: 'm-1' }), anOriginalEntry({ message_id: 'm-2' })]);
      const { code } = await killedAt(c2c, 's-bob', `/^(rename|unlink|fsync):when=${nth}`, [...drain(path), '--json']);
      const { messages } = await c2c.json<{ messages: Taken[] }>(drain(path), bob);
      expect(messages.map(({ message_id }) => message_id)).toEqual(['m-1', 'm-2']);
      expect(c2c.inbox('s-bob')).toEqual([]);
      if (code === 0) return;
    }
    throw new Error('it never came to its end');
  });

  it('lets two plugins share one spool: neither overwrites what the other put there', async () => {
    const c2c = await twoAgents();
    const path = `${temporaryHome()}/spool.json`;
    for (let n = 0; n < 4; n += 1) {
      await c2c.said(['send', 'bob', `${n}`], alice);
      await Promise.all([c2c.json(drain(path), bob), c2c.json(drain(path), bob)]);
    }
    const { messages } = await c2c.json<{ messages: Taken[] }>(drain(path), bob);
    expect(messages.map(({ content }) => content)).toEqual(['0', '1', '2', '3']);
  });
});

/** A session whose process has ended since. */
async function registeredAndGone(c2c: Brokerage, alias: string): Promise<void> {
  const process = Bun.spawn(['sleep', '60']);
  await c2c.registered([alias], process.pid);
  process.kill('SIGKILL');
  await process.exited;
}

/** A `c2c …` that is killed when it enters a system call, if it comes to that one. */
async function killedAt(
  c2c: Brokerage,
  session: string,
  call: string,
  args: string[],
): Promise<{ code: number; out: string }> {
  const [calls, when] = call.split(':');
  const child = Bun.spawn(
    [STRACE ?? '', '-f', '-o', '/dev/null', '-e', `inject=${calls}:signal=KILL:${when}`, PARLEY, 'c2c', ...args],
    { cwd: c2c.program.home, env: c2c.env({ session }), stdout: 'pipe', stderr: 'ignore' },
  );
  const out = await new Response(child.stdout).text();
  return { code: await child.exited, out };
}

it.skipIf(!STRACE)('c2c send waits for the disk twice, and reads the registry and the inbox once', async () => {
  const c2c = await twoAgents();
  await c2c.said(['send', 'bob', 'the first makes the ledger'], alice);
  const log = `${c2c.program.home}/calls`;
  const traced = [STRACE ?? '', '-f', '-e', 'trace=/^(f(data)?sync|openat?)$', '-o', log];
  const sent = [PARLEY, 'c2c', 'send', 'bob', 'hello'];
  const child = Bun.spawn([...traced, ...sent], { env: c2c.env(alice), stdout: 'ignore' });
  expect(await child.exited).toBe(0);
  const calls = readFileSync(log, 'utf8').split('\n');
  const count = (pattern: RegExp): number => calls.filter((call) => pattern.test(call)).length;
  expect({
    flushes: count(/ f(?:data)?sync\(/),
    registry: count(/\/registry\.json"/),
    inbox: count(/\/s-bob\.inbox\.json", O_RDONLY/),
  }).toEqual({ flushes: 2, registry: 1, inbox: 1 });
});
