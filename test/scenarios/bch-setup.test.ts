import { describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { refuseTemporary } from '../../src/cli/lasting.ts';
import { wakeService } from '../../src/cli/dialects/bch/wake.ts';
import { until } from '../support/bch.ts';
import { temporaryHome } from '../support/home.ts';
import { SetupMachine } from '../support/setup-home.ts';

const PROGRAM = new URL('../../bin/parley', import.meta.url).pathname;
const HOOK = `"${PROGRAM}" bch drain --hook --match "$(git remote get-url origin 2>/dev/null || pwd)"`;
const ENTRY = { hooks: [{ type: 'command', command: HOOK }] };
const ALL = { '.claude/': '', '.codex/': '', '.gemini/': '' };

/** A machine that has been set up, and what was said. */
async function setUp(
  files: Record<string, string>,
  args: string[] = [],
): Promise<{ machine: SetupMachine; said: string }> {
  const machine = new SetupMachine().agent('me').with(files);
  return { machine, said: await machine.said(['setup', ...args], { as: 'me' }) };
}

describe('`bch setup`', () => {
  it('adds hook, skill and server to Claude Code [BC-B9.3, BC-B9.5, BC-B9.6]', async () => {
    const { machine, said } = await setUp({ '.claude/': '' });
    expect(said.trim().split('\n')).toEqual([
      `[claude-code] inbox hook added to ${machine.at('.claude/settings.json')}`,
      `[claude-code] skill installed at ${machine.at('.claude/skills/backchannel/SKILL.md')}`,
      '[claude-code] MCP server registered (user scope)',
    ]);
    expect(machine.json('.claude/settings.json')).toEqual({ hooks: { UserPromptSubmit: [ENTRY] } });
    expect(machine.read('.claude/skills/backchannel/SKILL.md')).toStartWith('---\nname: backchannel\n');
    expect(machine.json('.claude.json')).toEqual({
      mcpServers: { backchannel: { type: 'stdio', command: PROGRAM, args: ['bch', 'mcp'] } },
    });
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
  ])('adds no hook where one that drains is there, at %s [BC-B9.4]', async (_where, hooks) => {
    const text = JSON.stringify({ hooks });
    const { machine, said } = await setUp({ '.claude/settings.json': text });
    expect(said).toContain('[claude-code] inbox hook already installed\n');
    expect(machine.read('.claude/settings.json')).toBe(text);
  });

  it('adds its server and its section to Codex, after what is there [BC-B9.7, BC-B9.8]', async () => {
    const { machine, said } = await setUp({ '.codex/config.toml': 'model = "o4"\n', '.codex/AGENTS.md': '# Mine\n' });
    expect(said).toBe(
      `[codex] MCP server added to ${machine.at('.codex/config.toml')}\n` +
        `[codex] messaging instructions added to ${machine.at('.codex/AGENTS.md')}\n`,
    );
    expect(machine.read('.codex/config.toml')).toBe(
      `model = "o4"\n\n[mcp_servers.backchannel]\ncommand = "${PROGRAM}"\nargs = ["bch", "mcp"]\n`,
    );
    expect(machine.read('.codex/AGENTS.md')).toMatch(/^# Mine\n\n<!-- backchannel[^]*bch_inbox[^]*-->\n$/);
    const other = await setUp({ '.codex/AGENTS.md': 'Use Backchannel.\n' });
    expect(other.said).toContain('[codex] AGENTS.md section already present\n');
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
      `[gemini-cli] MCP server added to ${machine.at('.gemini/settings.json')}\n` +
        `[gemini-cli] messaging instructions added to ${machine.at('.gemini/GEMINI.md')}\n`,
    );
    expect(machine.json('.gemini/settings.json')).toEqual({
      theme: 'x',
      mcpServers: { backchannel: { command: PROGRAM, args: ['bch', 'mcp'] } },
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
    const machine = new SetupMachine().with({ ...ALL, 'other/.codex/': '' });
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
    const machine = new SetupMachine().with({ ...ALL, [path]: text });
    const before = machine.snapshot();
    expect(await machine.error(['setup'], { as: 'me' })).toBe(
      `${machine.at(path)} exists but is not valid ${format} — fix it manually, then re-run \`bch setup\``,
    );
    expect(machine.snapshot()).toEqual(before);
  });

  it('changes nothing the second time, and reports what is there [BC-B9.14]', async () => {
    const { machine } = await setUp(ALL, ['--wake']);
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
    const { machine } = await setUp({ ...ALL });
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
    const machine = new SetupMachine().with(ALL);
    const said = await machine.said(['setup', '--no-hooks', '--wake'], { as: 'me' });
    expect(said).toMatch(/^\[wake\] [^\n]*\n$/);
    expect(['.claude', '.codex', '.gemini'].flatMap((folder) => readdirSync(machine.at(folder)))).toEqual([]);
    expect(await machine.error(['setup', '--hooks'])).toContain("Unknown option '--hooks'");
  });

  it('says what it would do, and does nothing, when asked for that', async () => {
    const machine = new SetupMachine().with(ALL);
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

describe('the wake service', () => {
  it('is a systemd user unit that notifies of urgent mail and claims nothing [BC-B9.11]', async () => {
    const { machine, said } = await setUp({}, ['--wake', '--no-hooks']);
    const unit = machine.at('.config/systemd/user/parley-wake.service');
    expect(said).toBe(
      `[wake] systemd user daemon installed (${unit}), urgent messages run: notify-send -- "bch: {{from}}" "{{body}}"\n`,
    );
    expect(machine.called).toEqual([
      'systemctl --user daemon-reload',
      'systemctl --user enable --now parley-wake.service',
    ]);
    expect(machine.read('.config/systemd/user/parley-wake.service')).toContain(
      `ExecStart="${PROGRAM}" "bch" "watch" "--urgent-only" "--peek" "--exec" "notify-send -- \\"bch: {{from}}\\" \\"{{body}}\\""\n`,
    );
    // The command line of the unit, as systemd reads it.
    const [, line = ''] = /^ExecStart=(.*)$/m.exec(machine.read('.config/systemd/user/parley-wake.service')) ?? [];
    const words = [...line.matchAll(/"((?:\\.|[^"\\])*)"/g)].map(([, word = '']) => word.replaceAll(/\\(.)/g, '$1'));
    const notified = `${machine.bin}/notified`;
    machine.fake('notify-send', `printf '%s|' "$@" >> '${notified}'`);
    machine.leave('me', { body: 'calm' });
    machine.leave('me', { body: '$(touch x) "now"', priority: 'urgent' });
    const env = machine.env({ as: 'me' });
    const service = Bun.spawn(words, { env, cwd: machine.at(''), stdout: 'ignore', stderr: 'ignore' });
    await until('a notice', () => existsSync(notified) && readFileSync(notified, 'utf8').endsWith('"now"|'));
    service.kill();
    await service.exited;
    expect(readFileSync(notified, 'utf8')).toBe('--|bch: script|$(touch x) "now"|');
    expect(machine.files('me', 'new')).toHaveLength(2);
    expect(existsSync(machine.at('x'))).toBe(false);
  });

  it('is a launchd agent on macOS, which logs to ~/.backchannel/wake.log [BC-B3.15, BC-B9.11]', () => {
    const own = { program: '/opt/a & b/parley', words: ['bch'] };
    const { step, start, others } = wakeService('darwin', '/Users/me', own, { BACKCHANNEL_AGENT: 'me' }) ?? {};
    expect(step?.path).toBe('/Users/me/Library/LaunchAgents/parley-wake.plist');
    expect(start).toEqual([['launchctl', 'load', '/Users/me/Library/LaunchAgents/parley-wake.plist']]);
    expect(others).toEqual(['/Users/me/Library/LaunchAgents/ai.unisonlabs.backchannel.wake.plist']);
    const text = step?.content.format === 'whole' ? step.content.text : '';
    const strings = [...text.matchAll(/<string>([^<]*)<\/string>/g)].map(([, one]) => one);
    expect(strings.slice(0, 7)).toEqual([
      'parley-wake',
      '/opt/a &amp; b/parley',
      'bch',
      'watch',
      '--urgent-only',
      '--peek',
      '--exec',
    ]);
    expect(strings[7]).toStartWith("osascript -e 'on run argv' -e 'display notification (item 2 of argv)");
    expect(text).toContain('<key>StandardOutPath</key><string>/Users/me/.backchannel/wake.log</string>');
    expect(text).toContain('<key>StandardErrorPath</key><string>/Users/me/.backchannel/wake.log</string>');
    expect(text).toContain('<key>BACKCHANNEL_AGENT</key><string>me</string>');
  });

  it('is not installed beside the one of the established program [BC-B9.12]', async () => {
    const theirs = { '.config/systemd/user/backchannel-wake.service': '[Unit]\n' };
    const { machine, said } = await setUp(theirs, ['--wake', '--no-hooks']);
    expect(said).toMatch(/^\[wake\] daemon already installed \(.*backchannel-wake\.service\)\n$/);
    expect(readdirSync(machine.at('.config/systemd/user'))).toEqual(['backchannel-wake.service']);
    expect(machine.called).toEqual([]);
  });

  it('says what to do by hand where it cannot be started', async () => {
    const machine = new SetupMachine().fake('systemctl', 'exit 1');
    expect(await machine.said(['setup', '--wake', '--no-hooks'], { as: 'me' })).toMatch(
      /^\[wake\] unit written to \S+ but systemctl enable failed — run `systemctl --user enable --now parley-wake` manually\n$/,
    );
  });

  it('has no token in its file, whatever the environment holds', async () => {
    const machine = new SetupMachine();
    const env = { BACKCHANNEL_TOKEN: 'secret-token', BACKCHANNEL_HOME: machine.at('50% $HOME') };
    await machine.said(['setup', '--wake', '--no-hooks'], { as: 'me', env });
    const unit = machine.read('.config/systemd/user/parley-wake.service');
    expect(unit).not.toContain('secret-token');
    expect(unit).toContain('50%% $$HOME');
    expect(unit).toContain('Environment="BACKCHANNEL_AGENT=me"\n');
  });
});

const THEIR_HOOK = { hooks: [{ type: 'command', command: 'echo theirs' }] };

/** Homes as they are found: each file as its program, its user or an editor left it. */
const HOMES: Record<string, Record<string, string>> = {
  'nothing in it': {},
  'empty folders': ALL,
  'empty objects': { '.claude/settings.json': '{}', '.claude.json': '{}\n', '.gemini/settings.json': '{ }' },
  'empty containers': {
    '.claude/settings.json': '{"hooks": {"UserPromptSubmit": []}}',
    '.claude.json': '{\n  "mcpServers": {}\n}',
  },
  'containers with other things': {
    '.claude/settings.json': '{\n  "hooks": {\n    "Stop": []\n  }\n}\n',
    '.claude.json': '{"mcpServers":{"x":{"command":"y"}}}',
  },
  'hooks of another tool': {
    '.claude/settings.json': JSON.stringify(
      { model: 'opus', hooks: { UserPromptSubmit: [THEIR_HOOK], Stop: [THEIR_HOOK] } },
      null,
      2,
    ),
  },
  'a minified file': {
    '.claude/settings.json': JSON.stringify({ hooks: { UserPromptSubmit: [THEIR_HOOK] } }),
    '.claude.json': '{"a":{"b":[1,2,3]}}',
  },
  comments: {
    '.claude/settings.json': '// mine\n{\n  // model\n  "model": "opus", // best\n  /* hooks: none */\n}\n// end\n',
  },
  'comments in empty containers': {
    '.claude/settings.json': '{\n  "hooks": {\n    // none yet\n  }\n}',
    '.gemini/settings.json': '{ /* none */ }',
  },
  'trailing commas': {
    '.claude/settings.json': '{\n  "hooks": {\n    "UserPromptSubmit": [\n      {"hooks": [],},\n    ],\n  },\n}\n',
    '.gemini/settings.json': '{"a": 1,}',
  },
  tabs: {
    '.claude/settings.json': '{\n\t"hooks": {\n\t\t"Stop": []\n\t}\n}\n',
    '.claude.json': '{\n\t"mcpServers": {\n\t\t"x": {}\n\t}\n}',
  },
  'four blanks': { '.gemini/settings.json': '{\n    "mcpServers": {\n        "x": {}\n    }\n}\n' },
  'Windows line ends': {
    '.claude/settings.json': '{\r\n  "a": 1 // one\r\n}\r\n',
    '.codex/config.toml': 'a = 1\r\n[b]\r\nc = 2\r\n',
    '.codex/AGENTS.md': '# Mine\r\n',
  },
  'byte order marks': {
    '.claude/settings.json': '\ufeff{\n  "a": 1\n}\n',
    '.codex/config.toml': '\ufeffa = 1\n',
    '.gemini/GEMINI.md': '\ufeff# Mine\n',
  },
  'no line end at the end': {
    '.claude.json': '{\n  "a": 1\n}',
    '.codex/config.toml': 'a = 1',
    '.codex/AGENTS.md': 'Mine',
    '.gemini/GEMINI.md': 'Mine',
  },
  'odd blanks': { '.claude/settings.json': '\n\n  {   "a"  :  1   }   \n\n', '.gemini/settings.json': '{\n\n\n}\n\n' },
  'a full Codex': {
    '.codex/config.toml':
      'model = "gpt"\n# mine\n[projects."/abs"]\ntrust_level = "trusted"\n[[hooks.Stop]]\nmatcher = "x"\n[mcp_servers.other]\ncommand = "y"\nenv = { A = "b" }\n\n\n',
  },
  'empty texts': { '.codex/config.toml': '', '.codex/AGENTS.md': '', '.gemini/GEMINI.md': '\n\n' },
  'keys that look like ours': {
    '.claude.json': '{"backchannel": {}, "x": {"mcpServers": {"backchannel": 1}}, "note": "drain --hook"}',
  },
  'other alphabets': {
    '.claude/settings.json': '{"naïve — ✓ 漢字 😀": "\\ud83d\\ude00"}',
    '.codex/AGENTS.md': '漢字 😀\n',
  },
  'a skill of one’s own': {
    '.claude/skills/mine/SKILL.md': '---\nname: mine\n---\n',
    '.claude/skills/backchannel/notes.md': 'x',
  },
};

describe('setup and its undoing', () => {
  it.each(Object.entries(HOMES))('leave every byte of a home with %s as it was', async (_name, files) => {
    const machine = new SetupMachine().with(files);
    for (const binary of ['claude', 'codex', 'gemini']) machine.fake(binary);
    const before = machine.snapshot();
    const said = await machine.said(['setup', '--wake'], { as: 'me' });
    expect(said).not.toContain('already');
    expect(machine.snapshot()).not.toEqual(before);
    for (const [path, text] of Object.entries(files)) {
      // Nothing that was there is lost or moved, whatever came in between.
      if (!path.endsWith('/')) expect(isWithin(text, machine.read(path))).toBe(true);
    }
    await machine.said(['setup', '--uninstall'], { as: 'me' });
    expect(machine.snapshot()).toEqual(before);
    expect(machine.called.slice(2)).toEqual([
      'systemctl --user disable --now parley-wake.service',
      'systemctl --user daemon-reload',
    ]);
  });

  it('follow links, also two that lead to one file', async () => {
    const machine = new SetupMachine().with({ ...ALL, 'dotfiles/AGENTS.md': '# Mine\n', 'dotfiles/claude.json': '{}' });
    symlinkSync('../dotfiles/AGENTS.md', machine.at('.codex/AGENTS.md'));
    symlinkSync('../dotfiles/AGENTS.md', machine.at('.gemini/GEMINI.md'));
    symlinkSync('dotfiles/claude.json', machine.at('.claude.json'));
    const before = machine.snapshot();
    const said = await machine.said(['setup'], { as: 'me' });
    expect(said).toContain('[gemini-cli] GEMINI.md section already present');
    expect(machine.read('dotfiles/AGENTS.md').match(/backchannel: begin/g)).toHaveLength(1);
    await machine.said(['setup', '--uninstall'], { as: 'me' });
    expect(machine.snapshot()).toEqual(before);
  });

  it('leave what others did in between', async () => {
    const { machine } = await setUp({ ...ALL, '.claude.json': '{"first": 1}' });
    // As Claude Code writes its own file: whole, and often.
    writeFileSync(
      machine.at('.claude.json'),
      JSON.stringify({ ...machine.json('.claude.json'), numStartups: 7 }, null, 2),
    );
    writeFileSync(machine.at('.codex/config.toml'), `model = "o4"\n${machine.read('.codex/config.toml')}`);
    writeFileSync(machine.at('.gemini/GEMINI.md'), machine.read('.gemini/GEMINI.md').replace('untrusted', 'TRUSTED'));
    const said = await machine.said(['setup', '--uninstall'], { as: 'me' });
    expect(machine.read('.claude.json')).toBe('{\n  "first": 1,\n  "numStartups": 7\n}');
    expect(machine.read('.codex/config.toml')).toBe('model = "o4"\n');
    expect(machine.read('.gemini/GEMINI.md')).toContain('TRUSTED');
    expect(said).toContain(`${machine.at('.gemini/GEMINI.md')} was changed by somebody; it is left as it is`);
    expect(said).toContain(`is kept as ${machine.at('.claude.json.before-parley')}`);
    expect(existsSync(machine.at('.claude/settings.json'))).toBe(false);
    expect(await machine.said(['setup', '--uninstall'], { as: 'me' })).toStartWith('[none] nothing was added');
  });

  it('say what would be removed, and remove nothing, when asked for that', async () => {
    const { machine } = await setUp(ALL);
    const before = machine.snapshot();
    expect((await machine.said(['setup', '--uninstall', '--dry-run'])).match(/ would be removed from /g)).toHaveLength(
      7,
    );
    expect(machine.snapshot()).toEqual(before);
  });
});

describe('the program that clients are told to start', () => {
  it('is never one in a temporary place', () => {
    const folder = temporaryHome();
    for (const path of [`${folder}/parley`, `${folder}/_npx/ab12/node_modules/parley-mail/bin/parley`]) {
      mkdirSync(path.slice(0, path.lastIndexOf('/')), { recursive: true });
      writeFileSync(path, '');
    }
    expect(() => refuseTemporary(`${folder}/parley`, { TMPDIR: folder })).toThrow('install it (parley self install');
    expect(() =>
      refuseTemporary(`${folder}/_npx/ab12/node_modules/parley-mail/bin/parley`, { TMPDIR: '/nowhere' }),
    ).toThrow('will not stay');
    expect(() => refuseTemporary('/no/such/parley', {})).toThrow('will not stay');
    expect(refuseTemporary(`${folder}/parley`, { TMPDIR: '/nowhere' })).toBe(`${folder}/parley`);
  });
});

/** Do all characters of one text stand in another, in their order? */
function isWithin(text: string, whole: string): boolean {
  let found = 0;
  for (let at = 0; at < whole.length; at += 1) if (whole[at] === text[found]) found += 1;
  return found === text.length;
}
