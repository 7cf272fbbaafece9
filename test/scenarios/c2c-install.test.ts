import { describe, expect, it } from 'bun:test';
import {
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
  appendFileSync,
} from 'node:fs';
import { changedFiles, HOMES, InstallMachine, isWithin } from '../support/install-home.ts';
import { PARLEY } from '../support/program.ts';

const SERVER = { command: PARLEY, args: ['c2c', 'mcp'] };

interface Installed {
  alias: string | null;
  changes: { path: string; what: string; outcome: string; backup: string | null }[];
  [name: string]: unknown;
}

async function install(machine: InstallMachine, args: string[], env: Record<string, string> = {}): Promise<Installed> {
  return JSON.parse(await machine.does('c2c', ['install', ...args, '--json'], { env })) as Installed;
}

describe('`c2c install claude`', () => {
  it('puts script, hooks and server into their places [C2C-31, C2C-31b, C2C-8]', async () => {
    const machine = new InstallMachine().with({ '.claude/': '' });
    const { alias, broker_root } = await install(machine, ['claude', '--alias', 'ada']);
    const script = machine.at('.claude/hooks/c2c-inbox-check.sh');
    expect(statSync(script).mode & 0o777).toBe(0o755);
    const command = `test -f ${script} && test -x ${script} || exec cat >/dev/null; exec ${script}`;
    const entry = { matcher: '.*', hooks: [{ type: 'command', command }] };
    expect(machine.json('.claude/settings.json')).toEqual({
      hooks: { PostToolUse: [entry], PostToolUseFailure: [entry] },
    });
    expect(alias).toBe('ada');
    expect(broker_root).toBe(machine.at('.c2c/repos/default/broker'));
    expect(machine.json('project/.mcp.json')).toEqual({
      mcpServers: {
        c2c: {
          type: 'stdio',
          ...SERVER,
          env: {
            C2C_MCP_BROKER_ROOT: machine.at('.c2c/repos/default/broker'),
            C2C_MCP_AUTO_REGISTER_ALIAS: 'ada',
            C2C_MCP_AUTO_JOIN_ROOMS: 'swarm-lounge',
            C2C_MCP_AUTO_DRAIN_CHANNEL: '0',
            C2C_MCP_CHANNEL_DELIVERY: '1',
            C2C_MCP_CLIENT_TYPE: 'claude',
          },
        },
      },
    });
  });

  it('writes a hook that says what waits as context of the event, and nothing when nothing waits [C2C-31]', async () => {
    const machine = new InstallMachine().with({ '.claude/': '' });
    await install(machine, ['claude']);
    const session = { C2C_MCP_SESSION_ID: 's1' };
    await machine.does('c2c', ['register', 'ada'], { env: session });
    await machine.does('c2c', ['register', 'bob'], { env: { C2C_MCP_SESSION_ID: 's2' } });
    const { hooks } = machine.json('.claude/settings.json') as {
      hooks: Record<string, [{ hooks: [{ command: string }] }]>;
    };
    const command = hooks['PostToolUse']?.[0].hooks[0].command ?? '';
    const call = (): string => {
      const event = { session_id: 's1', cwd: machine.at('project'), hook_event_name: 'PostToolUse', tool_name: 'Bash' };
      const options = { env: machine.env(), cwd: machine.at('project'), stdin: Buffer.from(JSON.stringify(event)) };
      const child = Bun.spawnSync(['sh', '-c', command], options);
      expect([child.exitCode, child.stderr.toString()]).toEqual([0, '']);
      return child.stdout.toString();
    };
    expect(call()).toBe('');
    await machine.does('c2c', ['send', 'ada', 'CANARY'], { env: { C2C_MCP_SESSION_ID: 's2' } });
    expect(JSON.parse(call())).toMatchObject({
      hookSpecificOutput: { hookEventName: 'PostToolUse', additionalContext: expect.stringContaining('CANARY') },
    });
    expect(call()).toBe('');
  });

  it('writes a script that loses no mail to a c2c that hangs, and lets the client go on [C2C-31b]', async () => {
    const machine = new InstallMachine().with({ '.claude/': '' }).fake('hanging-c2c', 'exec sleep 120');
    await install(machine, ['claude']);
    await machine.does('c2c', ['register', 'ada'], { env: { C2C_MCP_SESSION_ID: 's1' } });
    await machine.does('c2c', ['send', 'ada', 'CANARY', '--from', 'bob']);
    const script = machine.at('.claude/hooks/c2c-inbox-check.sh');
    const text = readFileSync(script, 'utf8');
    const hanging = text.replace(/^ {2}timeout -k 1 4 '[^']*'/m, `  timeout -k 1 4 '${machine.bin}/hanging-c2c'`);
    expect(hanging).not.toBe(text);
    writeFileSync(script, hanging);
    const event = JSON.stringify({ session_id: 's1', cwd: machine.at('project'), hook_event_name: 'PostToolUse' });
    const child = Bun.spawnSync([script], { env: machine.env(), stdin: Buffer.from(event), timeout: 60_000 });
    expect([child.exitCode, child.signalCode ?? null, child.stdout.toString()]).toEqual([0, null, '']);
    const left = await machine.does('c2c', ['peek-inbox', '--json'], { env: { C2C_MCP_SESSION_ID: 's1' } });
    expect(left).toContain('CANARY');
  });

  it('serves all projects with --global, and then names no broker [C2C-31b, C2C-40]', async () => {
    const machine = new InstallMachine().with({ '.claude.json': '{"numStartups": 3}' });
    const { advice } = await install(machine, ['claude', '--global']);
    const { mcpServers } = machine.json('.claude.json') as { mcpServers: { c2c: { env: Record<string, string> } } };
    expect(Object.keys(mcpServers.c2c.env)).not.toContain('C2C_MCP_BROKER_ROOT');
    expect(mcpServers.c2c.env).toMatchObject({ C2C_MCP_AUTO_JOIN_ROOMS: 'swarm-lounge' });
    expect(advice).toContainEqual(expect.stringContaining('serve every repository, so they name no broker'));
    expect(existsSync(machine.at('project/.mcp.json'))).toBe(false);
    expect(existsSync(machine.at('.claude/settings.json'))).toBe(true);
  });

  it('follows CLAUDE_CONFIG_DIR, and finds the top of a repository [C2C-31b]', async () => {
    const machine = new InstallMachine().with({ 'moved/': '', 'project/.git/config': '', 'project/deep/er/': '' });
    const env = { CLAUDE_CONFIG_DIR: machine.at('moved') };
    await machine.does('c2c', ['install', 'claude'], { env, cwd: 'project/deep/er' });
    expect(readdirSync(machine.at('moved')).sort()).toEqual(['hooks', 'settings.json']);
    expect(existsSync(machine.at('project/.mcp.json'))).toBe(true);
    await machine.does('c2c', ['install', 'claude', '--global'], { env });
    expect(readdirSync(machine.at('moved')).sort()).toEqual(['.claude.json', 'hooks', 'settings.json']);
  });

  it('quotes a path that a shell would take apart', async () => {
    const machine = new InstallMachine().with({ "it's here/": '' });
    await machine.does('c2c', ['install', 'claude'], { env: { CLAUDE_CONFIG_DIR: machine.at("it's here") } });
    const { hooks } = machine.json("it's here/settings.json") as {
      hooks: Record<string, [{ hooks: [{ command: string }] }]>;
    };
    const child = Bun.spawnSync(['sh', '-c', hooks['PostToolUse']?.[0].hooks[0].command ?? ''], { env: machine.env() });
    expect([child.exitCode, child.stderr.toString()]).toEqual([0, expect.not.stringContaining('not found')]);
  });
});

describe('`c2c install` for other clients', () => {
  it('gives OpenCode its server, its sidecar and the plugin, which calls this very program [C2C-37b, C2C-40]', async () => {
    const machine = new InstallMachine().with({ 'project/.git/config': '' });
    const { alias, session_id, plugin } = await install(machine, ['opencode', '--install-global-plugin']);
    expect([session_id, plugin]).toEqual(['opencode-project', machine.at('.config/opencode/plugins/c2c.ts')]);
    const root = (await install(machine, ['opencode']))['broker_root'] as string;
    expect(machine.json('project/.opencode/c2c-plugin.json')).toEqual({
      session_id: 'opencode-project',
      alias,
      broker_root: root,
      broker_root_fingerprint: expect.stringMatching(/^[0-9a-f]{12}$/),
    });
    expect(root).toContain(String(machine.json('project/.opencode/c2c-plugin.json')['broker_root_fingerprint']));
    expect(machine.json('project/.opencode/opencode.json')).toEqual({
      mcp: {
        c2c: {
          type: 'local',
          command: [PARLEY, 'c2c', 'mcp'],
          environment: expect.objectContaining({ C2C_MCP_BROKER_ROOT: root, C2C_MCP_AUTO_JOIN_ROOMS: 'swarm-lounge' }),
          enabled: true,
        },
      },
    });
    const [, called = ''] = /^const COMMAND = "(.*)";$/m.exec(machine.read('.config/opencode/plugins/c2c.ts')) ?? [];
    const child = Bun.spawnSync([called, 'list', '--json'], { env: machine.env(), cwd: machine.at('project') });
    expect([child.stdout.toString(), child.exitCode]).toEqual(['[]\n', 0]);
    expect(existsSync(machine.at('project/.opencode/plugins'))).toBe(false);
  });

  it('puts a copy of the plugin into the project when asked for it [C2C-37b]', async () => {
    const machine = new InstallMachine();
    await install(machine, ['opencode', '--project-plugin']);
    expect(machine.read('project/.opencode/plugins/c2c.ts')).toBe(machine.read('.config/opencode/plugins/c2c.ts'));
    const said = await machine.does('c2c', ['install', 'opencode']);
    expect(said).toContain('is there   plugin');
  });

  it('gives Codex hooks only when asked for them, and never says that they are trusted', async () => {
    const machine = new InstallMachine().with({ '.codex/': '' });
    const without = await install(machine, ['codex']);
    expect(existsSync(machine.at('.codex/hooks.json'))).toBe(false);
    expect(without['advice']).toContainEqual(expect.stringContaining('--hooks'));
    expect(machine.read('.codex/config.toml')).toStartWith(
      `[mcp_servers.c2c]\ncommand = ${JSON.stringify(PARLEY)}\nargs = ["c2c", "mcp"]\n\n[mcp_servers.c2c.env]\n`,
    );
    expect(machine.read('.codex/config.toml')).not.toContain('C2C_MCP_AUTO_REGISTER_ALIAS');
    const asked = await install(machine, ['codex', '--hooks']);
    const { hooks } = machine.json('.codex/hooks.json') as { hooks: Record<string, unknown> };
    expect(Object.keys(hooks)).toContain('PostToolUse');
    expect(asked['advice']).toContainEqual(expect.stringContaining('Codex asks at its next start'));
    expect(JSON.stringify(machine.snapshot())).not.toMatch(/trusted_hash|approval_mode|trust_level/);
  });

  it.each([
    [{ '.kimi/': '' }, ['.kimi/mcp.json']],
    [{ '.kimi-code/': '' }, ['.kimi-code/config.toml', '.kimi-code/mcp.json']],
    [{ '.kimi/': '', '.kimi-code/': '' }, ['.kimi-code/config.toml', '.kimi-code/mcp.json', '.kimi/mcp.json']],
    [{}, ['.kimi-code/config.toml', '.kimi-code/mcp.json']],
  ])('serves whichever Kimi is here: %j', async (files, written) => {
    const machine = new InstallMachine().with(files);
    const before = machine.snapshot();
    await install(machine, ['kimi']);
    const changed = changedFiles(before, machine.snapshot());
    expect(changed.filter((path) => path.startsWith('.kimi'))).toEqual(written);
    for (const path of written.filter((one) => one.endsWith('mcp.json')))
      expect(machine.json(path)).toMatchObject({ mcpServers: { c2c: SERVER } });
  });

  it('keeps the name that was given once, and takes a new one when given [C2C-40]', async () => {
    const machine = new InstallMachine();
    const first = await install(machine, ['kimi']);
    expect(first.alias).toMatch(/^kimi-[a-z]+-[a-z]+$/);
    expect((await install(machine, ['kimi', '--alias', 'ada'])).alias).toBe('ada');
    expect((await install(machine, ['kimi'])).alias).toBe('ada');
    expect(machine.read('.kimi-code/mcp.json')).toContain('"C2C_MCP_AUTO_REGISTER_ALIAS": "ada"');
    await machine.does('c2c', ['install', 'kimi', '--uninstall']);
    expect((await install(machine, ['kimi'])).alias).toBe(first.alias);
  });

  it('refuses what it does not know, and says what it does', async () => {
    const machine = new InstallMachine();
    expect((await machine.run('c2c', ['install', 'claud'])).err).toBe(
      'error: no client is called "claud"; did you mean claude?; use one of claude, codex, opencode, kimi, gemini\n',
    );
    expect((await machine.run('c2c', ['install', 'kimi', '--alias', 'c2c'])).err).toContain('"c2c" is no alias');
    expect((await machine.run('c2c', ['install'])).err).toStartWith('error: usage: c2c install claude|codex');
  });
});

describe('`c2c install` and its undoing', () => {
  it.each(Object.entries(HOMES))(
    'leave every byte of a home with %s as it was [C2C-31, C2C-40, C2C-41, C2C-42]',
    async (_name, { clients, files }) => {
      const machine = new InstallMachine().with(files);
      const before = machine.snapshot();
      const listed = new Set<string>();
      const all = () =>
        Promise.all(clients.map((client) => install(machine, [client, ...(client === 'codex' ? ['--hooks'] : [])])));
      for (const { changes } of await all()) {
        for (const { path, backup, outcome } of changes) {
          expect(outcome).toBe('added');
          for (const one of [path, backup]) if (one) listed.add(one.slice(machine.program.home.length + 1));
          // Anyone who was there before has a copy, and it is what was there.
          const old = files[path.slice(machine.program.home.length + 1)];
          if (old !== undefined) expect(readFileSync(backup ?? '', 'utf8')).toBe(old);
        }
      }
      const after = machine.snapshot();
      expect(changedFiles(before, after).filter((path) => path !== '.local/share/parley/installed.json')).toEqual(
        [...listed].sort(),
      );
      // Nothing that was there is lost or moved, whatever came in between.
      for (const [path, text] of Object.entries(files))
        if (!path.endsWith('/')) expect(isWithin(text, machine.read(path))).toBe(true);
      for (const { changes } of await all()) expect(changes.filter(({ outcome }) => outcome !== 'there')).toEqual([]);
      expect(machine.snapshot()).toEqual(after);
      await Promise.all(clients.map((client) => machine.does('c2c', ['install', client, '--uninstall'])));
      expect(machine.snapshot()).toEqual(before);
    },
  );

  it('follow links, and give back modes [C2C-40]', async () => {
    const machine = new InstallMachine().with({
      '.claude/': '',
      'dotfiles/settings.json': '{\n}\n',
      'dotfiles/mcp.json': '{}',
    });
    symlinkSync('../dotfiles/settings.json', machine.at('.claude/settings.json'));
    symlinkSync('../dotfiles/mcp.json', machine.at('project/.mcp.json'));
    chmodSync(machine.at('dotfiles/settings.json'), 0o640);
    const before = machine.snapshot();
    await install(machine, ['claude']);
    expect(machine.read('dotfiles/settings.json')).toContain('PostToolUseFailure');
    expect(statSync(machine.at('dotfiles/settings.json')).mode & 0o777).toBe(0o640);
    await machine.does('c2c', ['install', 'claude', '--uninstall']);
    expect(machine.snapshot()).toEqual(before);
  });

  it.each([
    ['claude', '.claude/settings.json', '{"hooks": ', 'is not valid JSON'],
    ['claude', 'project/.mcp.json', 'null and void', 'is not valid JSON'],
    ['claude', 'project/.mcp.json', '[]', 'has no object at its top'],
    ['claude', '.claude/settings.json', '{"hooks": []}', 'has no object at "hooks"'],
    ['codex', '.codex/config.toml', 'a = "', 'is not valid TOML'],
    ['codex', '.codex/config.toml', 'mcp_servers = {}', 'cannot take a table'],
    ['opencode', 'project/.opencode/opencode.json', '{"mcp": 1}', 'has no object at "mcp"'],
    ['kimi', '.kimi-code/config.toml', 'hooks = 1\n', 'cannot take a table [hooks]'],
    ['kimi', '.kimi-code/mcp.json', '', 'is not valid JSON'],
    ['gemini', '.gemini/settings.json', '{"a": 1} {"b": 2}', 'is not valid JSON'],
  ])(
    'name a file of %s that they cannot change (%s: %s), and change nothing [C2C-41]',
    async (client, path, text, why) => {
      const machine = new InstallMachine().with({ [path]: text });
      const before = machine.snapshot();
      const { err, code } = await machine.run('c2c', ['install', client]);
      expect(err).toStartWith(`error: ${machine.at(path)} ${why}`);
      expect(err).toContain(`it is left as it is. Mend it, then \`c2c install ${client}\` again`);
      expect(code).toBe(1);
      expect(machine.snapshot()).toEqual(before);
    },
  );

  it('take everything back if something goes wrong on the way', async () => {
    const machine = new InstallMachine().with({ 'project/.opencode': 'a file where a folder belongs' });
    const before = machine.snapshot();
    const { err, code } = await machine.run('c2c', ['install', 'opencode']);
    expect(err).toContain(machine.at('project/.opencode/c2c-plugin.json'));
    expect(code).toBe(1);
    expect(machine.snapshot()).toEqual(before);
  });

  it('touch nothing when nobody can tell what was added before', async () => {
    const machine = new InstallMachine().with({ '.local/share/parley/installed.json': '{"half' });
    const before = machine.snapshot();
    const why = `${machine.at('.local/share/parley/installed.json')} cannot be read, so it is unknown what we added`;
    for (const args of [['claude'], ['claude', '--uninstall']])
      expect((await machine.run('c2c', ['install', ...args])).err).toStartWith(`error: ${why}`);
    expect((await machine.run('bch', ['setup'])).err).toStartWith(`error: ${why}`);
    expect(machine.snapshot()).toEqual(before);
  });

  it('say what they would do, and do nothing, when asked for that [C2C-40]', async () => {
    const machine = new InstallMachine();
    const before = machine.snapshot();
    for (const [client, lines] of [
      ['claude', 3],
      ['opencode', 4],
    ] as const) {
      const said = await machine.does('c2c', ['install', client, '--dry-run']);
      expect(said).toStartWith('[DRY-RUN] ');
      expect(said.match(/^ {2}would add /gm)).toHaveLength(lines);
    }
    expect(machine.snapshot()).toEqual(before);
    await install(machine, ['claude']);
    const after = machine.snapshot();
    const said = await machine.does('c2c', ['install', 'claude', '--uninstall', '--dry-run']);
    expect(said.match(/^ {2}would remove /gm)).toHaveLength(3);
    expect(machine.snapshot()).toEqual(after);
  });

  it('leave what others did in between [C2C-40]', async () => {
    const machine = new InstallMachine().with({ '.claude/settings.json': '{"first": 1}' });
    await install(machine, ['claude']);
    const settings = machine.json('.claude/settings.json') as { hooks: { PostToolUse: unknown[] } };
    settings.hooks.PostToolUse.unshift({ hooks: [{ type: 'command', command: 'echo theirs' }] });
    writeFileSync(machine.at('.claude/settings.json'), JSON.stringify(settings, null, 2));
    writeFileSync(machine.at('.claude/hooks/c2c-inbox-check.sh'), '#!/bin/sh\n# mine now\n');
    const said = await machine.does('c2c', ['install', 'claude', '--uninstall']);
    expect(machine.json('.claude/settings.json')).toEqual({
      first: 1,
      hooks: { PostToolUse: [{ hooks: [{ type: 'command', command: 'echo theirs' }] }] },
    });
    expect(machine.read('.claude/hooks/c2c-inbox-check.sh')).toContain('mine now');
    expect(said).toContain('left alone   hook script');
    expect(said).toContain(`(as it was before: ${machine.at('.claude/settings.json.before-parley')})`);
    expect(await machine.does('c2c', ['install', 'claude', '--uninstall'])).toStartWith('nothing was added');
  });

  it('leave alone what another c2c has installed', async () => {
    const machine = new InstallMachine().with({ '.claude/hooks/c2c-inbox-check.sh': '#!/bin/bash\n# theirs\n' });
    const { changes } = await install(machine, ['claude']);
    expect(changes.map(({ outcome }) => outcome)).toEqual(['theirs', 'added', 'added', 'added']);
    expect(machine.read('.claude/hooks/c2c-inbox-check.sh')).toContain('theirs');
  });

  it('do not take for ours a server of our name that came with the project', async () => {
    const theirs = '{"mcpServers": {"c2c": {"command": "/tmp/anything"}}}';
    const machine = new InstallMachine().with({ 'project/.mcp.json': theirs });
    expect(await machine.does('c2c', ['install', 'claude'])).toContain(
      `left alone MCP server: ${machine.at('project/.mcp.json')}  (not written by this installer, or changed since: look at it)`,
    );
    await machine.does('c2c', ['install', 'claude', '--uninstall']);
    expect(machine.read('project/.mcp.json')).toBe(theirs);
  });

  const together = ['bch', 'c2c', 'parley'] as const;
  const orders = together.flatMap((a) => together.filter((b) => b !== a).map((b) => [a, b] as const));
  it.each(orders)(
    'give back every byte beside bch and parley, no matter who goes first (%s, then %s) [C2C-40]',
    async (first, second) => {
      const machine = new InstallMachine().with({
        '.claude/settings.json': '{\n  // mine\n  "hooks": {"Stop": []}\n}\n',
        '.gemini/settings.json': '{}',
        '.codex/config.toml': 'a = 1',
      });
      await machine.does('parley', ['init', 'me']);
      const before = machine.outside;
      const clients = ['claude', 'codex', 'gemini'];
      const env = { BACKCHANNEL_AGENT: 'me' };
      for (const client of clients) await install(machine, [client, '--global']);
      await machine.does('bch', ['setup'], { env });
      await machine.does('parley', ['install', ...clients]);
      const uninstall = {
        bch: () => machine.does('bch', ['setup', '--uninstall'], { env }),
        parley: () => machine.does('parley', ['install', '--uninstall']),
        c2c: async () => {
          for (const client of clients) await machine.does('c2c', ['install', client, '--uninstall']);
        },
      };
      for (const name of [first, second, ...together.filter((one) => one !== first && one !== second)]) {
        expect(machine.outside).not.toEqual(before);
        await uninstall[name]();
      }
      expect(machine.outside).toEqual(before);
    },
  );

  it('do not trip over each other when several run at once [C2C-40]', async () => {
    const machine = new InstallMachine();
    const before = machine.snapshot();
    const clients = ['claude', 'codex', 'opencode', 'kimi', 'gemini'];
    await Promise.all(clients.map((client) => install(machine, [client])));
    await Promise.all(clients.map((client) => machine.does('c2c', ['install', client, '--uninstall'])));
    expect(machine.snapshot()).toEqual(before);
  });
});

it('`--uninstall` names what Codex wrote about the hooks of c2c, and `--yes` removes it', async () => {
  const machine = new InstallMachine().with({ '.codex/config.toml': 'model = "gpt"\n' });
  const before = machine.read('.codex/config.toml');
  await machine.does('c2c', ['install', 'codex', '--hooks']);
  const table = `[hooks.state."${machine.at('.codex/hooks.json')}:stop:0:0"]`;
  appendFileSync(machine.at('.codex/config.toml'), `\n[hooks.state]\n\n${table}\ntrusted_hash = "sha256:00"\n`);
  expect(await machine.does('c2c', ['install', 'codex', '--uninstall', '--dry-run'])).toContain(table);
  expect(await machine.does('c2c', ['install', 'codex', '--uninstall', '--yes'])).toContain(table);
  expect(machine.read('.codex/config.toml')).toBe(before);
});
