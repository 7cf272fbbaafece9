import { describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { refuseTemporary } from '../../src/clients/own-program.ts';
import { temporaryHome } from '../support/home.ts';
import { ALL_CLIENTS, setUp, SetupMachine } from '../support/setup-home.ts';
import { PARLEY } from '../support/program.ts';

const START = `"${PARLEY}" bch drain --hook --match "$(git remote get-url origin 2>/dev/null || pwd)"`;
const HOOK = `test -f "${PARLEY}" && test -x "${PARLEY}" || exec cat >/dev/null; exec ${START}`;
const ENTRY = { hooks: [{ type: 'command', command: HOOK }] };

describe('`bch setup`', () => {
  it('adds hook, skill and server to Claude Code [BC-B9.3, BC-B9.5, BC-B9.6]', async () => {
    const { machine, said } = await setUp({ '.claude/': '' });
    expect(said.trim().split('\n')).toEqual([
      `[claude-code] ${machine.at('.claude/settings.json')} reads your mail before each prompt from now on`,
      `[claude-code] the skill is written to ${machine.at('.claude/skills/backchannel/SKILL.md')}`,
      `[claude-code] ${machine.at('.claude.json')} starts the mail tools from now on`,
    ]);
    expect(machine.json('.claude/settings.json')).toEqual({ hooks: { UserPromptSubmit: [ENTRY] } });
    expect(machine.read('.claude/skills/backchannel/SKILL.md')).toStartWith('---\nname: backchannel\n');
    expect(machine.json('.claude.json')).toEqual({
      mcpServers: { backchannel: { type: 'stdio', command: PARLEY, args: ['bch', 'mcp'] } },
    });
  });

  it('leaves the hooks of others where they are, before its own [BC-B9.3]', async () => {
    const theirs = { hooks: [{ type: 'command', command: 'true' }] };
    const { machine } = await setUp({
      '.claude/settings.json': JSON.stringify({ hooks: { UserPromptSubmit: [theirs] } }),
    });
    expect(machine.json('.claude/settings.json')).toEqual({ hooks: { UserPromptSubmit: [theirs, ENTRY] } });
  });

  it('writes a hook that runs: in a repository it drains what is for its origin, elsewhere for the folder [BC-B9.3]', async () => {
    const { machine } = await setUp({ '.claude/': '', 'repo/': '', 'folder/': '' });
    const run = (cwd: string): string => {
      const env = machine.env({ as: 'me' });
      const options = { env, cwd: machine.at(cwd), stdout: 'pipe', stderr: 'pipe' } as const;
      const child = Bun.spawnSync(['sh', '-c', command], options);
      expect(child.stderr.toString()).toBe('');
      return child.stdout.toString();
    };
    const { hooks } = machine.json('.claude/settings.json') as { hooks: { UserPromptSubmit: [typeof ENTRY] } };
    const command = hooks.UserPromptSubmit[0].hooks[0]?.command ?? '';
    for (const git of [
      ['init', '-q'],
      ['remote', 'add', 'origin', 'https://example.org/team/repo.git'],
    ]) {
      Bun.spawnSync(['git', ...git], { cwd: machine.at('repo'), env: machine.env() });
    }
    machine.leave('me', { body: 'for the repository', scope: 'team/repo' });
    machine.leave('me', { body: 'for the folder', scope: machine.at('folder') });
    expect(run('folder')).toMatch(/^\[backchannel\] 1 message\(s\) for me:\n[^]*for the folder\n$/);
    expect(run('repo')).toContain('for the repository');
    expect(run('repo')).toBe('');
  });

  it('writes a server that starts [BC-B9.6]', async () => {
    const { machine } = await setUp({ '.claude/': '' });
    const { mcpServers } = machine.json('.claude.json') as {
      mcpServers: { backchannel: { command: string; args: string[] } };
    };
    const { command, args } = mcpServers.backchannel;
    const hello = {
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } },
    };
    const child = Bun.spawnSync([command, ...args], {
      env: machine.env({ as: 'me' }),
      stdin: Buffer.from(`${JSON.stringify(hello)}\n`),
    });
    expect(child.stdout.toString()).toContain('"serverInfo":{"name":"backchannel","version":"0.1.0"}');
  });

  it.each([
    [
      'its own event',
      { UserPromptSubmit: [{ hooks: [{ type: 'command', command: '"bun" "cli.ts" drain --hook --match x' }] }] },
    ],
    ['another event', { SessionStart: [{ matcher: '*', hooks: [{ type: 'command', command: 'bch drain --hook' }] }] }],
    [
      'the second place of an entry',
      {
        Stop: [
          {
            hooks: [
              { type: 'command', command: 'true' },
              { type: 'command', command: 'bch drain --hook' },
            ],
          },
        ],
      },
    ],
    [
      'a second entry',
      {
        Stop: [
          { hooks: [{ type: 'command', command: 'true' }] },
          { hooks: [{ type: 'command', command: 'bch drain --hook' }] },
        ],
      },
    ],
  ])('adds no hook where one that drains is there, at %s [BC-B9.4]', async (_where, hooks) => {
    const text = JSON.stringify({ hooks });
    const { machine, said } = await setUp({ '.claude/settings.json': text });
    expect(said).toContain('[claude-code] a hook that reads mail is already installed\n');
    expect(machine.read('.claude/settings.json')).toBe(text);
  });

  it('adds its server and its section to Codex, after what is there [BC-B9.7, BC-B9.8]', async () => {
    const { machine, said } = await setUp({ '.codex/config.toml': 'model = "o4"\n', '.codex/AGENTS.md': '# Mine\n' });
    expect(said).toBe(
      `[codex] ${machine.at('.codex/config.toml')} starts the mail tools from now on\n` +
        `[codex] ${machine.at('.codex/AGENTS.md')} has a section on mail from now on\n`,
    );
    expect(machine.read('.codex/config.toml')).toBe(
      `model = "o4"\n\n[mcp_servers.backchannel]\ncommand = "${PARLEY}"\nargs = ["bch", "mcp"]\n`,
    );
    expect(machine.read('.codex/AGENTS.md')).toMatch(/^# Mine\n\n<!-- backchannel[^]*bch_inbox[^]*-->\n$/);
    const other = await setUp({ '.codex/AGENTS.md': 'Use Backchannel.\n' });
    expect(other.said).toContain('[codex] a section on mail is already present in AGENTS.md\n');
    expect(other.machine.read('.codex/AGENTS.md')).toBe('Use Backchannel.\n');
  });

  it('never touches what Codex trusts, and adds no hook there', async () => {
    const trust = '[hooks.state."/h.json:stop:0:0"]\ntrusted_hash = "sha256:1"\n';
    const { machine } = await setUp({ '.codex/config.toml': `approval_policy = "on-request"\n${trust}` });
    expect(machine.read('.codex/config.toml')).toStartWith(`approval_policy = "on-request"\n${trust}\n[mcp_servers.`);
    expect(existsSync(machine.at('.codex/hooks.json'))).toBe(false);
  });

  it('adds its server and its section to Gemini [BC-B9.9]', async () => {
    const { machine, said } = await setUp({
      '.gemini/settings.json': '{"theme": "x"}',
      '.gemini/GEMINI.md': '# Mine\n',
    });
    expect(said).toBe(
      `[gemini-cli] ${machine.at('.gemini/settings.json')} starts the mail tools from now on\n` +
        `[gemini-cli] ${machine.at('.gemini/GEMINI.md')} has a section on mail from now on\n`,
    );
    expect(machine.json('.gemini/settings.json')).toEqual({
      theme: 'x',
      mcpServers: { backchannel: { command: PARLEY, args: ['bch', 'mcp'] } },
    });
    expect(machine.read('.gemini/GEMINI.md')).toMatch(/^# Mine\n[^]*bch_inbox/);
  });

  it('finds each client by its folder or by its program, and says so if there is none [BC-B9.2, BC-B9.10]', async () => {
    expect((await setUp({})).said).toStartWith('[none] no known harness detected');
    for (const [harness, folder, binary] of [
      ['claude-code', '.claude/', 'claude'],
      ['codex', '.codex/', 'codex'],
      ['gemini-cli', '.gemini/', 'gemini'],
    ] as const) {
      const byFolder = (await setUp({ [folder]: '' })).said;
      const byBinary = await new SetupMachine().fake(binary).said(['setup'], { as: 'me' });
      for (const said of [byFolder, byBinary]) {
        expect(
          new Set(
            said
              .trim()
              .split('\n')
              .map((line) => line.split(' ')[0]),
          ),
        ).toEqual(new Set([`[${harness}]`]));
      }
    }
  });

  it('works in BACKCHANNEL_SETUP_HOME, and leaves the home alone [BC-B9.1, BC-B7.46]', async () => {
    const machine = new SetupMachine().with({ ...ALL_CLIENTS, 'other/.codex/': '' });
    const before = machine.snapshot();
    await machine.said(['setup', '--wake'], { as: 'me', env: { BACKCHANNEL_SETUP_HOME: machine.at('other') } });
    const changed = Object.entries(machine.snapshot()).filter(([name, what]) => before[name] !== what);
    expect(changed.map(([name]) => name).filter((name) => !name.startsWith('other/'))).toEqual([]);
    expect(existsSync(machine.at('other/.codex/config.toml'))).toBe(true);
    // A service in another home is none of this session's.
    expect(machine.called).toEqual([]);
  });

  it('follows a client whose folder its user has moved', async () => {
    const machine = new SetupMachine().with({ 'moved/claude/': '', 'moved/codex/': '' });
    const env = { CLAUDE_CONFIG_DIR: machine.at('moved/claude'), CODEX_HOME: machine.at('moved/codex') };
    await machine.said(['setup'], { as: 'me', env });
    expect(readdirSync(machine.at('moved/claude')).sort()).toEqual(['.claude.json', 'settings.json', 'skills']);
    expect(readdirSync(machine.at('moved/codex')).sort()).toEqual(['AGENTS.md', 'config.toml']);
  });

  it.each([
    ['.claude/settings.json', '{"hooks": ', 'JSON'],
    ['.claude.json', 'null and void', 'JSON'],
    ['.gemini/settings.json', '', 'JSON'],
    ['.codex/config.toml', 'a = "', 'TOML'],
  ])('names %s if it cannot be read, and then changes nothing at all [BC-B9.13]', async (path, text, format) => {
    const machine = new SetupMachine().with({ ...ALL_CLIENTS, [path]: text });
    const before = machine.snapshot();
    expect(await machine.error(['setup'], { as: 'me' })).toBe(
      `${machine.at(path)} is not valid ${format}; it is left as it is. Mend it, then \`bch setup\` again`,
    );
    expect(machine.snapshot()).toEqual(before);
  });

  it('changes nothing the second time, and reports what is there [BC-B9.14]', async () => {
    const { machine } = await setUp(ALL_CLIENTS, ['--wake']);
    const before = machine.snapshot();
    const calls = machine.called;
    const said = await machine.said(['setup', '--wake'], { as: 'me' });
    const lines = said.trim().split('\n');
    expect(lines).toHaveLength(8);
    expect(lines.filter((line) => !/ already (installed|registered|present)/.test(line))).toEqual([]);
    expect(machine.snapshot()).toEqual(before);
    expect(machine.called).toEqual(calls);
  });

  it('is known to the established program, and knows it: neither installs beside the other [BC-B9.15]', async () => {
    const { machine } = await setUp({ ...ALL_CLIENTS });
    // What the established program looks for before it adds its own.
    expect(machine.read('.claude/settings.json')).toContain('drain --hook');
    for (const file of ['.claude.json', '.gemini/settings.json'])
      expect(machine.json(file)['mcpServers']).toHaveProperty('backchannel');
    expect(machine.read('.codex/config.toml')).toContain('[mcp_servers.backchannel]');
    for (const file of ['.codex/AGENTS.md', '.gemini/GEMINI.md']) expect(machine.read(file)).toContain('backchannel');
    // What it leaves behind.
    const server = { command: '/usr/bin/bun', args: ['/opt/backchannel/src/cli.ts', 'mcp'] };
    const theirs = {
      '.claude/settings.json': JSON.stringify(
        { hooks: { UserPromptSubmit: [{ hooks: [{ type: 'command', command: '"bun" "cli.ts" drain --hook' }] }] } },
        null,
        2,
      ),
      '.claude/skills/backchannel/SKILL.md': '---\nname: backchannel\n---\ntheirs\n',
      '.claude.json': JSON.stringify({ mcpServers: { backchannel: { type: 'stdio', ...server } } }, null, 2),
      '.codex/config.toml': '\n[mcp_servers.backchannel]\ncommand = "/usr/bin/bun"\nargs = ["cli.ts", "mcp"]\n',
      '.codex/AGENTS.md': '\n## Agent messaging (backchannel)\n',
      '.gemini/settings.json': JSON.stringify({ mcpServers: { backchannel: server } }, null, 2),
      '.gemini/GEMINI.md': '\n## Agent messaging (backchannel)\n',
    };
    const other = new SetupMachine().with(theirs);
    const before = other.snapshot();
    expect((await other.said(['setup'], { as: 'me' })).match(/ already /g)).toHaveLength(7);
    expect(other.snapshot()).toEqual(before);
    expect(await other.said(['setup', '--uninstall'], { as: 'me' })).toStartWith('[none] nothing was added');
    expect(other.snapshot()).toEqual(before);
  });

  it('takes --no-hooks and --wake [BC-B7.5]', async () => {
    const machine = new SetupMachine().with(ALL_CLIENTS);
    const said = await machine.said(['setup', '--no-hooks', '--wake'], { as: 'me' });
    expect(said).toMatch(/^\[wake\] \S+\/parley-wake\.(?:service|plist) [^\n]*\n$/);
    expect(['.claude', '.codex', '.gemini'].flatMap((folder) => readdirSync(machine.at(folder)))).toEqual([]);
    expect(await machine.error(['setup', '--hooks'])).toContain("Unknown option '--hooks'");
  });

  it('says what it would do, and does nothing, when asked for that', async () => {
    const machine = new SetupMachine().with(ALL_CLIENTS);
    const before = machine.snapshot();
    const said = await machine.said(['setup', '--wake', '--dry-run'], { as: 'me' });
    expect(said.match(/^\[[\w-]+\] would add the [\w ]+ in /gm)).toHaveLength(8);
    expect(machine.snapshot()).toEqual(before);
    expect(machine.called).toEqual([]);
  });

  it('says what is missing where there is no agent yet', async () => {
    expect(await new SetupMachine().said(['setup'])).toContain('no agent yet — run `bch init <name>`');
  });
});

describe('the program that a client is set to start', () => {
  it('is never one in a temporary folder, and the refusal names the lines to type', () => {
    const folder = temporaryHome();
    const runner = `${folder}/_npx/ab12/node_modules/parley-mail/bin/parley`;
    for (const path of [`${folder}/bin/parley`, runner, `${folder}/home/.local/bin/parley`]) {
      mkdirSync(path.slice(0, path.lastIndexOf('/')), { recursive: true });
      writeFileSync(path, '');
    }
    const env = { TMPDIR: folder, HOME: '/home/me' };
    expect(() => refuseTemporary(`${folder}/bin/parley`, env, 'bch setup')).toThrow(
      `is in the temporary folder ${folder}, so a client cannot start it later; install it (\`npm install -g ./parley-mail-<version>.tgz\`), then \`bch setup\``,
    );
    mkdirSync(`${folder}/scripts`);
    expect(() => refuseTemporary(`${folder}/bin/parley`, env, 'bch setup')).toThrow(
      `run \`npm run build && dist/parley self install\` in ${folder}, then \`/home/me/.local/bin/parley bch setup\``,
    );
    expect(() => refuseTemporary(runner, { TMPDIR: '/nowhere' }, 'bch setup')).toThrow('npm install -g ./parley-mail');
    expect(() => refuseTemporary('/no/such/parley', {}, 'bch setup')).toThrow('is not there');
    expect(refuseTemporary(`${folder}/bin/parley`, { TMPDIR: '/nowhere' }, 'bch setup')).toBe(`${folder}/bin/parley`);
  });

  it('may be one below a home that is temporary itself: the settings there go with it', () => {
    const folder = temporaryHome();
    const program = `${folder}/home/.local/bin/parley`;
    mkdirSync(`${folder}/home/.local/bin`, { recursive: true });
    writeFileSync(program, '');
    expect(refuseTemporary(program, { TMPDIR: folder, HOME: `${folder}/home` }, 'parley install')).toBe(program);
  });
});
