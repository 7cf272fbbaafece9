// What people and scripts that come from the original c2c rely on.
import { describe, expect, it } from 'bun:test';
import { chmodSync, mkdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { commands } from '../../src/protocols/c2c/commands.ts';
import { Brokerage } from '../support/c2c.ts';
import { McpClient } from '../support/mcp.ts';

const alice = { session: 's-alice' };

describe('the text of c2c send', () => {
  it('may have words that look like options', async () => {
    const c2c = await new Brokerage().registered(['alice', 'bob']);
    await c2c.said(['send', 'bob', 'run', 'git', 'log', '--oneline', '-n', '5'], alice);
    await c2c.said(['send', 'bob', 'the flag', '--json', 'is new', '--urgent'], alice);
    await c2c.said(['send', 'bob', '--', '--urgent'], alice);
    expect(c2c.inbox('s-bob').map(({ content }) => content)).toEqual([
      'run git log --oneline -n 5',
      '⚠️ URGENT: the flag --json is new',
      '--urgent',
    ]);
  });

  it('is all of several plain words, and who may have meant an option is told', async () => {
    const c2c = await new Brokerage().registered(['alice', 'bob']);
    const texts = [
      'deploy with --fail',
      'use flag --json',
      'run df -h on the box',
      'df -h',
      'see tool --from me',
      'see tool --help',
    ];
    const notes = [];
    for (const text of texts) {
      const { code, err } = await c2c.c2c(['send', 'bob', ...text.split(' ')], alice);
      expect(code).toBe(0);
      notes.push(/^note: "(.*)" is sent as text/.exec(err)?.[1] ?? err);
    }
    expect(c2c.inbox('s-bob').map(({ content }) => content)).toEqual(texts);
    expect(notes).toEqual(['--fail', '--json', '', '', '--from me', '--help']);
    await c2c.said(['send', 'bob', '--urgent', 'the', 'build', 'is', 'red'], alice);
    expect(c2c.inbox('s-bob').at(-1)).toMatchObject({ content: '⚠️ URGENT: the build is red' });
    for (const asked of [['-h'], ['hi', '--help'], ['hi', '--urgent', '--help']])
      expect(await c2c.error(['send', 'bob', ...asked], alice)).toContain('usage: c2c send ');
    expect(c2c.inbox('s-bob')).toHaveLength(texts.length + 1);
  });

  it('ends where options of send begin: each of them counts behind it and before it', async () => {
    const { options } = commands.send;
    for (const [name, { type, short }] of Object.entries(options)) {
      for (const word of [`--${name}`, ...(short ? [`-${short}`] : [])]) {
        const c2c = await new Brokerage().registered(['alice', 'bob']);
        const option = type === 'string' ? [word, 'alice'] : [word];
        for (const args of [
          ['bob', 'hi', ...option],
          [...option, 'bob', 'hi'],
          ['bob', ...option, 'hi'],
        ]) {
          const { code, err } = await c2c.c2c(['send', ...args], alice);
          expect([args, code === 0 || err.includes('ephemeral')]).toEqual([args, true]);
        }
        expect(c2c.inbox('s-bob').every(({ content }) => /^(\S+ \S+: )?hi$/u.test(String(content)))).toBe(true);
      }
    }
  });
});

describe('c2c list --alive', () => {
  it('has only sessions whose process runs', async () => {
    const c2c = await new Brokerage().registered(['alice']);
    await c2c.said(['register', 'shell'], { session: 's-shell' });
    const aliases = async (...more: string[]) =>
      (await c2c.json<{ alias: string }[]>(['list', ...more])).map(({ alias }) => alias).sort();
    expect(await aliases('--alive')).toEqual(['alice']);
    expect(await aliases()).toEqual(['alice', 'shell']);
  });
});

describe('a session without a process that has been quiet for an hour', () => {
  const quiet = [
    { session_id: 's-old', alias: 'old' },
    { session_id: 's-bob', alias: 'bob' },
  ];

  it('leaves its alias to who writes under it', async () => {
    const c2c = new Brokerage().plant('registry.json', quiet);
    await c2c.said(['send', 'bob', 'by a script', '--from', 'old'], { session: 'script' });
    const mcp = new McpClient({ home: c2c.program.home, env: c2c.env({ session: 'script' }) }, [], 'c2c');
    await mcp.initialize();
    const { isError } = await mcp.call('send_all', { content: 'to all', from_alias: 'old' });
    expect(isError).toBe(false);
    await mcp.end();
    expect(c2c.inbox('s-bob')).toMatchObject([
      { from_alias: 'old', content: 'by a script' },
      { from_alias: 'old', content: 'to all' },
    ]);
  });

  it('leaves its mail to a poll whose session is not registered, and has its alias in the environment', async () => {
    const mail = [{ from_alias: 'bob', to_alias: 'old', content: 'for old' }];
    const c2c = new Brokerage().plant('registry.json', quiet).plant('s-old.inbox.json', mail);
    const env = { C2C_MCP_AUTO_REGISTER_ALIAS: 'old' };
    expect(await c2c.json(['poll-inbox', '--session-id', 'other'], { env })).toEqual([]);
    const { out, err } = await c2c.c2c(['poll-inbox', '--json'], { session: 'other', env });
    expect(err).toBe('note: session other is not registered, so this is the mail of old, session s-old\n');
    expect(JSON.parse(out)).toMatchObject([{ content: 'for old' }]);
  });

  it('is another thing than one that runs: that one keeps its mail', async () => {
    const c2c = await new Brokerage().registered(['alice', 'bob']);
    await c2c.said(['send', 'bob', 'for bob'], alice);
    const env = { C2C_MCP_AUTO_REGISTER_ALIAS: 'bob' };
    expect(await c2c.json(['poll-inbox'], { session: 'other', env })).toEqual([]);
    expect(c2c.inbox('s-bob')).toHaveLength(1);
  });
});

describe('a registry in the form {"registrations": […]}', () => {
  it('is read, and keeps its form and everything else in it', async () => {
    const c2c = new Brokerage();
    const old = '{"session_id":"s-old","alias":"old","mine":1.50}';
    mkdirSync(c2c.root, { recursive: true });
    writeFileSync(
      `${c2c.root}/registry.json`,
      `{"version": 3.0, "registrations": [${old}], "other": {"registrations": []}}`,
    );
    expect(await c2c.json(['list'])).toMatchObject([{ alias: 'old', session_id: 's-old' }]);
    await c2c.registered(['alice', 'bob']);
    const written = readFileSync(`${c2c.root}/registry.json`, 'utf8');
    expect(written).toStartWith('{"version": 3.0, "registrations": [{');
    expect(written).toEndWith(`${old}], "other": {"registrations": []}}`);
    expect(await c2c.json(['list'])).toMatchObject([{ alias: 'bob' }, { alias: 'alice' }, { alias: 'old' }]);
  });

  it('is saved, with all its rows, if it is broken', async () => {
    const c2c = new Brokerage();
    mkdirSync(c2c.root, { recursive: true });
    for (const broken of [
      '{"registrations":[{"session_id":"s-old","alias":"old"}]} and more',
      '{"registrations":[{"session_id":"s-old","alias":"old"},{',
    ]) {
      writeFileSync(`${c2c.root}/registry.json`, broken);
      expect((await c2c.c2c(['register', 'alice'], alice)).err).toContain('repaired');
      expect(c2c.rows).toMatchObject([{ alias: 'alice' }, { alias: 'old' }]);
    }
  });
});

describe('a result of a tool', () => {
  it('says that it is no error, if it is none', async () => {
    const c2c = await new Brokerage().registered(['alice']);
    const mcp = new McpClient({ home: c2c.program.home, env: c2c.env(alice) }, [], 'c2c');
    await mcp.initialize();
    const called = async (name: string, given = {}) =>
      (await mcp.request('tools/call', { name, arguments: given })).result?.['isError'];
    expect([await called('whoami'), await called('poll_inbox'), await called('send', { to_alias: 'x' })]).toEqual([
      false,
      false,
      true,
    ]);
    await mcp.end();
  });
});

describe('sessions in containers', () => {
  const nowhere = { C2C_MCP_CLIENT_PID: '0' };
  const inside = { ...nowhere, C2C_IN_DOCKER: '1' };

  it('whose process has no number pass their alias, with its mail, to the next that asks for it', async () => {
    const c2c = await new Brokerage().registered(['alice']);
    await c2c.said(['register', 'bob'], { session: 'one', env: nowhere });
    expect(c2c.row('bob')).toMatchObject({ pid: 0 });
    await c2c.said(['send', 'bob', 'before'], alice);
    await c2c.said(['register', 'bob'], { session: 'two', env: nowhere });
    expect(await c2c.json(['poll-inbox'], { session: 'two' })).toMatchObject([{ content: 'before' }]);
  });

  it('live by their lease: each sees the others as alive until five minutes after their last act', async () => {
    const c2c = new Brokerage();
    await c2c.said(['register', 'one'], { session: 'one', env: inside });
    await c2c.said(['register', 'two'], { session: 'two', env: inside });
    const alive = async () =>
      (await c2c.json<{ alias: string }[]>(['list', '--alive'], { env: inside })).map(({ alias }) => alias).sort();
    expect(await alive()).toEqual(['one', 'two']);
    expect(await c2c.error(['register', 'one'], { session: 'three', env: inside })).toContain('belongs to session one');
    const old = Date.now() / 1000 - 301;
    utimesSync(`${c2c.root}/.leases/one`, old, old);
    expect(await alive()).toEqual(['two']);
    await c2c.said(['register', 'one'], { session: 'three', env: inside });
  });

  it('keep their alias without a lease while their process is seen to run', async () => {
    const c2c = new Brokerage();
    const seen = { C2C_IN_DOCKER: '1', C2C_MCP_CLIENT_PID: String(process.pid) };
    await c2c.said(['register', 'one'], { session: 'one', env: seen });
    rmSync(`${c2c.root}/.leases/one`);
    expect(await c2c.json(['list', '--alive'], { env: seen })).toMatchObject([{ alias: 'one' }]);
    expect(await c2c.error(['register', 'one'], { session: 'two', env: inside })).toContain('belongs to session one');
    const [row] = c2c.rows;
    c2c.plant('registry.json', [{ ...row, pid_start_time: 1 }]);
    expect(await c2c.json(['list', '--alive'], { env: seen })).toEqual([]);
  });
});

describe('c2c install', () => {
  it('takes --force, and --broker-root for the broker that it writes down', async () => {
    const c2c = new Brokerage();
    const root = `${c2c.program.home}/elsewhere`;
    const install = ['install', 'claude', '--force', '--broker-root', root];
    await c2c.said(install);
    const settings = readFileSync(`${c2c.program.home}/.mcp.json`, 'utf8');
    expect(settings).toContain(`"C2C_MCP_BROKER_ROOT": "${root}"`);
    await c2c.said(install);
    expect(readFileSync(`${c2c.program.home}/.mcp.json`, 'utf8')).toBe(settings);
  });
});

describe('sessions that the original started', () => {
  it('are listed by instances and status, pruned by age, and left to the original', async () => {
    const c2c = await new Brokerage().registered(['alice']);
    const now = Date.now() / 1000;
    instance(c2c, 'running', now - 2 * 86_400, process.pid);
    instance(c2c, 'stale', now - 10 * 86_400, 999_999_999);
    const seen = [
      { name: 'running', status: 'running', delivery_mode: 'plugin', pid: process.pid },
      { name: 'stale', status: 'stopped', delivery_mode: 'plugin', pid: null },
    ];
    expect(await c2c.json(['instances'])).toMatchObject(seen);
    expect(await c2c.json(['status'])).toMatchObject({ managed_instances: seen });
    expect(await c2c.error(['stop', 'running'])).toContain('was started by the original c2c');
    expect(await c2c.json(['instances', '--prune-older-than', '7'])).toMatchObject([{ name: 'running' }]);
  });
});

describe('c2c status', () => {
  it('says who runs, how much each sent and took, the rooms and the managed sessions', async () => {
    const c2c = await new Brokerage().registered(['alice', 'bob']);
    await c2c.said(['register', 'shell'], { session: 's-shell' });
    await c2c.said(['rooms', 'join', 'ops'], alice);
    await c2c.said(['send', 'bob', 'one'], alice);
    await c2c.said(['poll-inbox'], { session: 's-bob' });
    expect(await c2c.json(['status'])).toMatchObject({
      alive_peers: [
        { alias: 'bob', sent: 0, received: 1 },
        { alias: 'alice', sent: 1, received: 0 },
      ],
      dead_peer_count: 0,
      total_peer_count: 3,
      managed_instances: [],
      rooms: [{ room_id: 'ops', member_count: 1 }],
    });
    expect(await c2c.said(['status'])).toMatch(/^sessions: 3, of which 2 run and 0 ended \(c2c list\)\n {2}bob /);
  });
});

describe('c2c get-tmux-location', () => {
  it('names the pane of the shell that asks, not the one that is in front', async () => {
    const c2c = new Brokerage();
    const bin = `${c2c.program.home}/bin`;
    mkdirSync(bin, { recursive: true });
    writeFileSync(`${bin}/tmux`, '#!/bin/sh\n[ "$2 $3" = "-t %42" ] && echo work:1.2\n');
    chmodSync(`${bin}/tmux`, 0o755);
    const env = { TMUX: '/tmp/server,1,0', TMUX_PANE: '%42', PATH: `${bin}:${process.env['PATH']}` };
    expect(await c2c.said(['get-tmux-location'], { env })).toBe('work:1.2\n');
    expect(await c2c.error(['get-tmux-location'], { env: { TMUX: '', TMUX_PANE: '' } })).toContain(
      'does not run in tmux',
    );
  });
});

/** As the original writes it down. */
function instance(c2c: Brokerage, name: string, createdAt: number, pid: number): void {
  const folder = `${c2c.program.home}/.local/share/c2c/instances/${name}`;
  mkdirSync(folder, { recursive: true });
  const config = { name, client: 'opencode', session_id: name, alias: name, created_at: createdAt, extra_args: [] };
  writeFileSync(`${folder}/config.json`, JSON.stringify(config));
  writeFileSync(`${folder}/outer.pid`, `${pid}\n`);
}
