// Who may act for the user: what a model tries from below its client, and what the user does at a terminal.
import { describe, expect, it } from 'bun:test';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { Brokerage } from '../support/c2c.ts';
import { temporaryHome } from '../support/home.ts';
import { McpClient } from '../support/mcp.ts';
import { PARLEY, personAt, Program } from '../support/program.ts';

const SHELL = '/bin/sh';
/** Runs what follows and stays above it, as a client's shell does. */
const STAYS = ['-c', '"$@"; exit $?', 'sh'];

/** A shell under the name of a client: what it runs has that client above it. */
function clientNamed(name: string): string {
  const path = `${temporaryHome()}/${name}`;
  symlinkSync(SHELL, path);
  return path;
}

/** A shell in the folder of a client's package, under a name that says nothing. */
function renamedClient(): string {
  const folder = `${temporaryHome()}/node_modules/@anthropic-ai/claude-code/bin`;
  mkdirSync(folder, { recursive: true });
  copyFileSync(SHELL, `${folder}/helper`);
  Bun.spawnSync(['chmod', '755', `${folder}/helper`]);
  return `${folder}/helper`;
}

/** A script that a shell runs, called like a client. */
function clientScript(): string {
  const path = `${temporaryHome()}/codex`;
  writeFileSync(path, '"$@"; exit $?\n');
  return path;
}

/** Every way to the terminal that a model has below a client, without any mark in the environment of the command itself. */
const WAYS: [string, () => string[]][] = [
  ['a terminal of its own', () => [clientNamed('claude'), ...STAYS]],
  ['`script`', () => [clientNamed('opencode'), '-c', 'script -qec "$*" /dev/null; exit $?', 'sh']],
  ['`setsid`', () => [clientNamed('codex'), '-c', 'setsid -w "$@"; exit $?', 'sh']],
  ['many shells', () => [clientNamed('kimi'), ...STAYS, ...Array.from({ length: 20 }, () => [SHELL, ...STAYS]).flat()]],
  [
    '`env -i` below a marked shell',
    () => ['env', 'CLAUDECODE=1', SHELL, '-c', `env -i HOME="$HOME" PATH="$PATH" "$@"; exit $?`, 'sh'],
  ],
  ['a client in a package under another name', () => [renamedClient(), ...STAYS]],
  ['a client that is a script', () => [SHELL, clientScript()]],
];

const MARKS = [
  'CLAUDECODE',
  'CLAUDE_CODE_SESSION_ID',
  'CODEX_THREAD_ID',
  'OPENCODE',
  'GEMINI_CLI',
  'QWEN_CODE',
  'C2C_MCP_SESSION_ID',
];

/** ada, a person, and codex, an agent that asks her for approval. */
async function asked(): Promise<{ parley: Program; id: string; told: () => Promise<object[]> }> {
  const parley = await new Program().init('codex');
  await parley.byPerson(['init', 'ada', '--human', '--owner']);
  const { id } = await parley.json<{ id: string }>(['send', '@ada', 'May I?', '--intent', 'approval']);
  return { parley, id, told: () => parley.json<object[]>(['inbox']) };
}

describe('an approval', () => {
  it.each(WAYS)('is refused below a client by %s', async (_way, below) => {
    const { parley, id, told } = await asked();
    const { shown, code } = await parley.atTerminal(['approve', id, '--yes'], 'yes', { as: 'ada', below: below() });
    expect({ shown, code }).toMatchObject({
      code: 77,
      shown: expect.stringContaining('Only the user can approve or deny'),
    });
    expect(await told()).toEqual([]);
  });

  it.each(MARKS)('is refused at a terminal where %s is set', async (mark) => {
    const { parley, id, told } = await asked();
    const { shown, code } = await parley.atTerminal(['approve', id, '--yes'], 'yes', {
      as: 'ada',
      env: { [mark]: '1' },
    });
    expect({ shown, code }).toMatchObject({
      code: 77,
      shown: expect.stringContaining(`A client started this process (${mark} is set)`),
    });
    expect(await told()).toEqual([]);
  });

  it('is given where AGENT is set, which many programs set', async () => {
    const { parley, id, told } = await asked();
    const { code } = await parley.atTerminal(['approve', id, '--yes'], '', { as: 'ada', env: { AGENT: '1' } });
    expect(code).toBe(0);
    expect(await told()).toHaveLength(1);
  });

  it('is given below shells that are no client’s', async () => {
    const { parley, id, told } = await asked();
    const below = [SHELL, ...STAYS, SHELL, ...STAYS];
    const { code } = await parley.atTerminal(['approve', id, '--yes'], '', { as: 'ada', below });
    expect(code).toBe(0);
    expect(await told()).toHaveLength(1);
  });
});

describe('a person’s name', () => {
  it('is used by no model: neither to write, nor to read, nor by default', async () => {
    const { parley } = await asked();
    const below = [clientNamed('claude'), ...STAYS];
    for (const words of [
      ['send', '@codex', 'go on', '--as', 'ada'],
      ['inbox', '--as', 'ada'],
      ['drain', '--as', 'ada'],
      ['watch', '--as', 'ada'],
      ['quiet', 'on', '--as', 'ada'],
    ]) {
      const { shown, code } = await parley.atTerminal(words, '', { below });
      expect({ words, code, shown }).toMatchObject({
        code: 77,
        shown: expect.stringContaining('@ada is a person. A client runs above this process'),
      });
    }
    await parley.run(['config', 'set', 'agent', 'ada']);
    const marked = await parley.withoutTerminal(['send', '@codex', 'go on'], { env: { CLAUDECODE: '1' } });
    expect(marked).toMatchObject({ code: 77, out: '' });
    expect(marked.err).toContain("Use an agent's mailbox: --as <agent>");
    expect(await parley.json<object[]>(['inbox'], { as: 'codex' })).toEqual([]);
    // An agent's name is free below a client.
    expect((await parley.atTerminal(['send', '@ada', 'hi', '--as', 'codex'], '', { below })).code).toBe(0);
  });

  it('is written under at a terminal only, and read by the person’s own scripts', async () => {
    const { parley } = await asked();
    const sent = await parley.withoutTerminal(['send', '@codex', 'go on'], { as: 'ada' });
    expect(sent).toMatchObject({ code: 77, out: '' });
    expect(sent.err).toBe(
      "parley: @ada is a person. This process has no terminal. Use an agent's mailbox: --as <agent> (`parley init <agent>` makes one)\n",
    );
    expect((await parley.withoutTerminal(['inbox', '--json'], { as: 'ada' })).out).toContain('May I?');
    expect((await parley.byPerson(['send', '@codex', 'go on'], { as: 'ada' })).code).toBe(0);
  });

  it('is used by no model through `bch` either, in a home where Parley says that it is a person', async () => {
    const { parley, told } = await asked();
    const env = { BACKCHANNEL_HOME: `${parley.home}/.parley`, BACKCHANNEL_AGENT: 'ada' };
    const bch = (words: string[], more: Record<string, string> = {}) =>
      parley.withoutTerminal(words, { name: 'bch', env: { ...env, ...more } });
    const commands = [['send', '@codex', 'I approve'], ['inbox'], ['drain'], ['drain', '--hook'], ['read', 'x']];
    for (const words of [...commands, ['watch'], ['sub', '#build'], ['unsub', '#build'], ['mcp'], ['init', 'ada']]) {
      const { out, err, code } = await bch(words, { CLAUDECODE: '1' });
      expect({ words, out, code, err }).toMatchObject({
        out: '',
        code: 1,
        err: expect.stringMatching(/^error: @ada is a person.* BACKCHANNEL_AGENT=<agent> /),
      });
    }
    expect((await bch(['send', '@codex', 'go on'])).err).toContain('This process has no terminal');
    expect((await bch(['inbox'])).out).toContain('May I?');
    expect(await told()).toEqual([]);
    expect((await bch(['send', '@ada', 'hi'], { BACKCHANNEL_AGENT: 'codex', CLAUDECODE: '1' })).code).toBe(0);
    expect((await parley.byPerson(['bch', 'send', '@codex', 'go on'], { env })).code).toBe(0);
    expect(await told()).toHaveLength(1);
  });

  it('is given to no model’s tools, wherever they are started', async () => {
    const { parley } = await asked();
    const client = new McpClient(parley, ['--as', 'ada']);
    await client.initialize();
    const { text, isError } = await client.call('inbox');
    expect({ text, isError }).toMatchObject({
      isError: true,
      text: expect.stringContaining('@ada is a person. This serves a model'),
    });
    await client.end();
  });

  it('is made and removed by the user only', async () => {
    const { parley } = await asked();
    const below = [clientNamed('claude'), ...STAYS];
    for (const words of [
      ['init', 'eve', '--human'],
      ['init', 'eve', '--human', '--owner', '--instead-of', 'ada'],
      ['forget', 'ada', '--yes'],
    ]) {
      const { shown, code } = await parley.atTerminal(words, '', { below });
      expect({ words, code, shown }).toMatchObject({ code: 77, shown: expect.stringContaining('Only the user') });
    }
    expect(await parley.withoutTerminal(['init', 'eve', '--human'])).toMatchObject({ code: 77, out: '' });
    expect((await parley.json<{ name: string }[]>(['agents'])).map(({ name }) => name)).toEqual(['ada', 'codex']);
    const bound = await parley.byPerson(['init', 'ada', '--session', 's1']);
    expect(bound.err).toContain('@ada is a person; bind the session to an agent');
  });
});

describe('a supervisor’s alias', () => {
  const answer = 'permission:p:approve-once';

  /** worker asks; boss is whom the user named. */
  async function supervised(): Promise<Brokerage> {
    const place = await new Brokerage().registered(['worker', 'w2']);
    await place.byUser(['repo', 'set', 'supervisors', 'boss']);
    await place.byUser(['register', 'boss', '--session-id', 'boss-box']);
    return place;
  }

  it('is named by the user only, outside any client, and in no file of the repository', async () => {
    const place = new Brokerage();
    expect(await place.error(['repo', 'set', 'supervisors', 'me'])).toContain('Only the user can name supervisors');
    expect(await place.error(['repo', 'unset', 'supervisors'], { session: 'w2' })).toContain(
      'C2C_MCP_SESSION_ID is set',
    );
    const command = [clientNamed('claude'), ...STAYS, PARLEY, 'c2c', 'repo', 'set', 'supervisors', 'me'];
    const below = await personAt({ command, cwd: place.program.home, env: place.env(), typed: '' });
    expect(below).toMatchObject({ code: 1, shown: expect.stringContaining('A client runs above this process') });
    expect(await place.json<object>(['repo', 'show'])).toEqual({ supervisors: [] });
    await place.byUser(['repo', 'set', 'supervisors', 'max']);
    expect(await place.json<object>(['repo', 'show'])).toEqual({ supervisors: ['max'] });
    expect(JSON.parse(readFileSync(`${place.program.home}/.parley/supervisors.json`, 'utf8'))).toEqual({
      [place.program.home]: ['max'],
    });
  });

  it('is taken by no session, by whatever command [C2C-60]', async () => {
    const place = await supervised();
    const elsewhere = temporaryHome();
    const refused = '"boss" answers for the user';
    expect(await place.error(['register', 'boss'], { session: 'w2' })).toContain(refused);
    expect(await place.error(['register', 'other'], { session: 'boss-box' })).toContain(refused);
    expect(await place.error(['start', 'claude', '-n', 'boss', '--bin', '/bin/cat'])).toContain(refused);
    expect(await place.error(['register'], { session: 'w9', env: { C2C_MCP_AUTO_REGISTER_ALIAS: 'boss' } })).toContain(
      refused,
    );
    // The folder in which a model runs it does not matter: a message reaches the broker from everywhere.
    expect(await place.error(['send', 'worker', answer, '--from', 'boss'], { cwd: elsewhere })).toContain(refused);
    expect(await place.error(['send', 'worker', answer], { env: { C2C_MCP_AUTO_REGISTER_ALIAS: 'boss' } })).toContain(
      refused,
    );
    expect(await place.error(['send', 'worker', answer], { session: 'boss-box' })).toContain(refused);
    expect(await place.error(['send-all', answer, '--from', 'Boss'], { session: 'w2' })).toContain(
      'answers for the user',
    );
    await place.said(['send', 'boss', 'may I?'], { session: 's-worker' });
    expect(await place.error(['poll-inbox'], { session: 'boss-box' })).toContain(refused);
    expect(place.inbox('s-worker')).toEqual([]);
  });

  it('is used by no tool of a model', async () => {
    const place = await supervised();
    const client = new McpClient({ home: place.program.home, env: place.env({ session: 'boss-box' }) }, [], 'c2c');
    await client.initialize();
    for (const [tool, given] of [
      ['send', { to_alias: 'worker', content: answer }],
      ['send', { to_alias: 'worker', content: answer, from_alias: 'BOSS' }],
      ['send_all', { content: answer }],
      ['register', { alias: 'other' }],
      ['poll_inbox', {}],
    ] as const) {
      const { text, isError } = await client.call(tool, given);
      expect({ tool, text, isError }).toMatchObject({
        isError: true,
        text: expect.stringContaining('answers for the user'),
      });
    }
    expect(place.inbox('s-worker')).toEqual([]);
    await client.end();
  });

  it('is no way in for an agent of Parley that has the same name', async () => {
    const place = await supervised();
    await place.parley(['init', 'boss']);
    const { err, code } = await place.parley(['send', '@worker%c2c', answer, '--as', 'boss']);
    expect({ err, code }).toMatchObject({ code: 77, err: expect.stringContaining('"boss" answers for the user') });
    expect(place.inbox('s-worker')).toEqual([]);
  });

  it('is used by the user at a terminal, to write and to read [C2C-60]', async () => {
    const place = await supervised();
    await place.said(['open-pending-reply', 'p', '--kind', 'permission', '--supervisors', 'boss'], {
      session: 's-worker',
    });
    await place.said(['send', 'boss', 'may I?'], { session: 's-worker' });
    expect(await place.byUser(['poll-inbox', '--session-id', 'boss-box'])).toContain('may I?');
    await place.byUser(['send', 'worker', answer, '--from', 'boss']);
    expect(place.inbox('s-worker')).toMatchObject([{ from_alias: 'boss', content: answer }]);
    expect(await place.json<object>(['check-pending-reply', 'p', 'boss'], { session: 's-worker' })).toMatchObject({
      valid: true,
    });
  });
});

describe('every other alias', () => {
  it('is free: a session writes under its own or one that nobody has, and not under another session’s that runs', async () => {
    const place = await new Brokerage().registered(['alice', 'bob']);
    await place.said(['send', 'bob', 'one', '--from', 'alice'], { session: 's-alice' });
    await place.said(['send', 'bob', 'two', '--from', 'nightly'], { session: 's-alice' });
    expect(await place.error(['send', 'bob', 'three', '--from', 'bob'], { session: 's-alice' })).toBe(
      '"bob" is the alias of another session that runs (s-bob); choose another alias',
    );
    const env = place.env({ session: 's-alice', env: { C2C_MCP_CLIENT_PID: String(process.pid) } });
    const client = new McpClient({ home: place.program.home, env }, [], 'c2c');
    await client.initialize();
    const send = (from_alias: string) => client.call('send', { to_alias: 'bob', content: 'by tool', from_alias });
    expect(await send('alice')).toMatchObject({ isError: false });
    expect(await send('weekly')).toMatchObject({ isError: false });
    expect(await send('bob')).toMatchObject({
      isError: true,
      text: expect.stringContaining('"bob" is the alias of another session that runs'),
    });
    await client.end();
    expect(place.inbox('s-bob').map(({ from_alias }) => from_alias)).toEqual(['alice', 'nightly', 'alice', 'weekly']);
  });

  it('belongs to its session also where nothing proves that the session runs, until it is registered again', async () => {
    const place = await new Brokerage().registered(['alice']);
    await place.said(['register', 'w1'], { session: 's-w1' });
    const refused = '"w1" is the alias of another session that may run (s-w1); choose another alias';
    expect(await place.error(['send', 'alice', 'x', '--from', 'w1'], { session: 's-alice' })).toBe(refused);
    expect(await place.error(['send', 'alice', 'x', '--from', 'w1'])).toBe(refused);
    await place.said(['send', 'alice', 'mine', '--from', 'w1'], { session: 's-w1' });
    await place.said(['register', 'w1'], { session: 's-w1' });
    expect(place.inbox('s-alice').map(({ content }) => content)).toEqual(['mine']);
  });

  it('is not used by `parley --as` from another session to write', async () => {
    const place = await new Brokerage().registered(['alice', 'w1']);
    const send = (session: string) => place.parley(['send', '@alice', `by ${session}`, '--as', 'w1'], { session });
    expect(await send('s3')).toMatchObject({
      code: 77,
      err: expect.stringContaining('"w1" is the alias of another session that runs (s-w1)'),
    });
    expect(await send('s-w1')).toMatchObject({ code: 0 });
    expect(place.inbox('s-alice').map(({ content }) => content)).toEqual(['by s-w1']);
  });
});
