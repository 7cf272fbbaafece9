import { describe, expect, it } from 'bun:test';
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { changedFiles, HOMES, InstallMachine, isWithin } from '../support/install-home.ts';
import { McpClient } from '../support/mcp.ts';
import { PARLEY } from '../support/program.ts';

const CLIENTS = ['claude', 'codex', 'opencode', 'kimi', 'gemini'];

interface Installed {
  dryRun: boolean;
  clients: { client: string; agent: string | null; refused: string | null; advice: string[]; changes: Change[] }[];
}
interface Change {
  path: string;
  what: string;
  outcome: string;
  backup: string | null;
}

/** A machine whose user has a mailbox. */
async function aMachine(files: Record<string, string> = {}): Promise<InstallMachine> {
  const machine = new InstallMachine().with(files);
  await machine.does('parley', ['init', 'me']);
  return machine;
}

async function install(machine: InstallMachine, args: string[]): Promise<Installed> {
  return JSON.parse(await machine.does('parley', ['install', ...args, '--json'])) as Installed;
}

describe('`parley install`', () => {
  it('adds to Claude Code what `parley hook` says, and its tools', async () => {
    const machine = await aMachine();
    await machine.does('parley', ['install', 'claude']);
    const { out } = await machine.run('parley', ['hook', '--help']);
    const [, json = ''] = /^Claude Code, .*:\n([\s\S]*?)\n\n/m.exec(out) ?? [];
    expect(machine.json('.claude/settings.json')).toEqual(JSON.parse(json) as Record<string, unknown>);
    expect(machine.json('.claude.json')).toEqual({
      mcpServers: { parley: { type: 'stdio', command: PARLEY, args: ['mcp', '--client', 'claude'] } },
    });
  });

  it('adds to each other client what it has: hooks or a plugin, and tools', async () => {
    const machine = await aMachine();
    const { clients } = await install(machine, CLIENTS);
    const whats = Object.fromEntries(clients.map(({ client, changes }) => [client, changes.map(({ what }) => what)]));
    expect(whats).toMatchObject({
      codex: [
        'skill',
        'hook at SessionStart',
        'hook at UserPromptSubmit',
        'hook at PostToolUse',
        'hook at Stop',
        'MCP server',
      ],
      opencode: ['skill', 'plugin', 'plugin package', 'plugin package', 'plugin package', 'MCP server'],
      kimi: ['skill', 'hook', 'MCP server'],
      gemini: ['hook at SessionStart', 'hook at BeforeAgent', 'hook at AfterTool', 'hook at AfterAgent', 'MCP server'],
    });
    expect(machine.json('.config/opencode/opencode.json')).toEqual({
      mcp: { parley: { type: 'local', command: [PARLEY, 'mcp', '--client', 'opencode'], enabled: true } },
    });
    expect(machine.read('.kimi-code/config.toml')).toContain('exec sh ~/.parley/hook kimi"\n');
    expect(JSON.stringify(machine.outside)).not.toMatch(
      /trusted_hash|approval_mode|trust_level|"trust"|"permissions"|"crossSessionInbound"/,
    );
  });

  it('writes a hook that runs', async () => {
    const machine = await aMachine();
    await machine.does('parley', ['install', 'claude']);
    await machine.does('parley', ['send', '@claude', 'CANARY']);
    const before = machine.outside;
    expect(machine.runsLine(lineIn(machine, '.claude/settings.json')).out).toContain('CANARY');
    expect(machine.outside).toEqual(before);
  });

  it('puts the tools into the project when asked for that, where the client has such settings', async () => {
    const machine = await aMachine();
    const { clients } = await install(machine, ['claude', 'opencode', 'codex', '--project']);
    const servers = clients.flatMap(({ changes }) => changes.filter(({ what }) => what === 'MCP server'));
    expect(servers.map(({ path }) => path)).toEqual([
      machine.at('project/.mcp.json'),
      machine.at('project/.opencode/opencode.json'),
      machine.at('.codex/config.toml'),
    ]);
    expect(clients[2]?.advice).toContainEqual(expect.stringContaining('Codex has no settings of a project'));
    expect((await machine.run('parley', ['install', 'claude', '--project', '--global'])).code).toBe(64);
  });

  it('finds the clients that are here, and does nothing before somebody says so', async () => {
    const machine = (await aMachine({ '.gemini/': '' })).fake('codex');
    const before = machine.outside;
    const { out, err, code } = await machine.run('parley', ['install']);
    expect([...out.matchAll(/^(\S.*):$/gm)].map(([, title]) => title)).toEqual([
      'Codex, as @codex',
      'Gemini CLI, as @gemini',
    ]);
    expect(out).toContain('would add');
    expect(err).toContain('nothing was changed; to do this: parley install --yes');
    expect(code).toBe(0);
    expect(machine.outside).toEqual(before);
    expect(await machine.does('parley', ['install', '--yes'])).toContain('added');
    expect(machine.read('.codex/config.toml')).toContain('[mcp_servers.parley]');
  });

  it('asks a person at a terminal, and changes nothing without a yes', async () => {
    const machine = await aMachine({ '.gemini/': '' });
    const before = machine.outside;
    const env = { ...machine.env(), PATH: '/usr/bin:/bin' };
    const no = await machine.program.atTerminal(['install'], 'no', { env });
    expect(no.shown).toContain('Make these changes? yes, or y, makes them; Enter changes nothing. Type yes:');
    expect(no.shown).toContain('nothing was changed');
    expect(machine.outside).toEqual(before);
    const yes = await machine.program.atTerminal(['install'], 'y', { env });
    expect(yes.code).toBe(0);
    expect(machine.json('.gemini/settings.json')).toHaveProperty('mcpServers.parley');
  });

  it('names the copy of each file once', async () => {
    const machine = new InstallMachine().with({ '.claude/settings.json': '{}', '.claude.json': '{}' });
    const said = await machine.does('parley', ['install', 'claude']);
    const copies = said.split('\n').filter((line) => line.includes('.before-parley'));
    expect(copies).toEqual(
      ['.claude/settings.json', '.claude.json'].map(
        (path) => `  copied     ${machine.at(path)} as it was: ${machine.at(path)}.before-parley`,
      ),
    );
  });

  it('needs a client that it knows', async () => {
    const machine = new InstallMachine();
    expect((await machine.run('parley', ['install', 'vim'])).err).toContain(
      'no client is called "vim"; use some of claude',
    );
    expect((await machine.run('parley', ['install'])).err).toContain('no known client is installed');
  });

  it('serves the other clients when the settings of one cannot be read, and says so at the end', async () => {
    const machine = await aMachine({ '.claude/settings.json': '{', '.gemini/': '' });
    const { out, code } = await machine.run('parley', ['install', 'claude', 'gemini']);
    expect(out).toContain(`nothing was changed: ${machine.at('.claude/settings.json')} is not valid JSON`);
    expect(code).toBe(1);
    expect(existsSync(machine.at('.claude.json'))).toBe(false);
    expect(machine.json('.gemini/settings.json')).toHaveProperty('mcpServers.parley');
  });
});

describe('the mailbox of a client', () => {
  it('is its own, anyone who the user is here', async () => {
    const machine = new InstallMachine().with({ '.claude/': '', '.codex/': '' });
    await machine.does('parley', ['init', 'claude']);
    await machine.does('parley', ['init', 'codex']);
    const said = await machine.does('parley', ['install', '--yes']);
    expect([...said.matchAll(/^(\S.*, as @.*):$/gm)].map(([, title]) => title)).toEqual([
      'Claude Code, as @claude',
      'Codex, as @codex',
    ]);
    await machine.does('parley', ['send', '@codex', 'CANARY']);
    expect(machine.runsLine(lineIn(machine, '.claude/settings.json')).out).toBe('');
    expect(machine.runsLine(lineIn(machine, '.codex/hooks.json')).out).toContain('CANARY');
  });

  it('is made in an empty home', async () => {
    const machine = new InstallMachine();
    const said = await machine.does('parley', ['install', 'codex', 'kimi']);
    expect(said).toContain('Codex, as @codex:\n  made       mailbox @codex\n');
    const agents = JSON.parse(await machine.does('parley', ['agents', '--json'])) as { name: string }[];
    expect(agents.map(({ name }) => name)).toEqual(['codex', 'kimi']);
  });

  it('is not made by a dry run', async () => {
    const machine = new InstallMachine();
    expect(await machine.does('parley', ['install', 'codex', '--dry-run'])).toContain('would make mailbox @codex');
    expect(existsSync(machine.at('.parley/agents'))).toBe(false);
  });

  it('changes without a change of its settings', async () => {
    const machine = await aMachine();
    await machine.does('parley', ['install', 'codex']);
    const before = machine.outside;
    expect(machine.read('.codex/config.toml') + machine.read('.codex/hooks.json')).not.toContain('--as');
    await machine.does('parley', ['install', 'codex', '--as', 'reviewer']);
    expect(machine.outside).toEqual(before);
    await machine.does('parley', ['send', '@reviewer', 'CANARY']);
    expect(machine.runsLine(lineIn(machine, '.codex/hooks.json')).out).toContain('CANARY');
    const server = new McpClient({ home: machine.program.home, env: machine.env(), command: serverOf(machine) });
    await server.initialize();
    expect((await server.call('agents')).text).toStartWith('you are @reviewer');
    await server.end();
    expect(await machine.does('parley', ['install', 'codex'])).toStartWith('Codex, as @reviewer:');
  });

  it('is never another client’s, unless the user names it', async () => {
    const machine = await aMachine();
    await machine.does('parley', ['install', 'claude', '--as', 'codex']);
    const { out, code } = await machine.run('parley', ['install', 'codex']);
    expect(out).toContain('nothing was changed: @codex is the mailbox of claude; choose another: ');
    expect(code).toBe(1);
    expect(existsSync(machine.at('.codex'))).toBe(false);
    expect(await machine.does('parley', ['install', 'kimi', '--as', 'codex'])).toStartWith('Kimi, as @codex:');
  });

  it('is not the name of the client itself if it is asked for: that one is shared by its sessions', async () => {
    const machine = await aMachine();
    const { err, code } = await machine.run('parley', ['install', 'codex', '--as', 'codex']);
    expect([code, err]).toEqual([64, expect.stringContaining('leave out --as')]);
    expect(existsSync(machine.at('.codex'))).toBe(false);
  });

  it('is never a person’s', async () => {
    const machine = new InstallMachine();
    await machine.program.atTerminal(['init', 'ada', '--human'], '', { env: machine.env() });
    const { out, code } = await machine.run('parley', ['install', 'claude', '--as', 'ada']);
    expect(out).toContain('nothing was changed: @ada is');
    expect(code).toBe(1);
  });

  it('is none for a server of a client that was never installed', async () => {
    const machine = await aMachine();
    const command = [PARLEY, 'mcp', '--client', 'codex'];
    const server = new McpClient({ home: machine.program.home, env: machine.env(), command });
    await server.initialize();
    expect(await server.call('agents')).toEqual({
      isError: true,
      text: 'codex has no mailbox here; run `parley install codex` first',
    });
    await server.end();
  });

  it('is none for a hook of a client that was never installed, beside one that was', async () => {
    const machine = await aMachine();
    await machine.does('parley', ['install', 'claude']);
    await machine.does('parley', ['send', '@me', 'CANARY', '--as', 'claude']);
    const line = 'sh ~/.parley/hook codex';
    expect(machine.runsLine(line, 'UserPromptSubmit')).toEqual({
      out: '',
      err: 'parley hook: codex has no mailbox here; run `parley install codex` first\n',
      code: 0,
    });
    expect(machine.runsLine(`${line} --as me`, 'UserPromptSubmit').out).toContain('CANARY');
  });

  it.each(['constructor', '__proto__', 'cursor'])('is refused for --client %s, which is no client', async (client) => {
    const { err, code } = await (await aMachine()).run('parley', ['mcp', '--client', client]);
    expect({ err, code }).toEqual({ code: 64, err: 'parley: --client is claude, codex, opencode, kimi, gemini\n' });
  });
});

/** A home with what `parley install --hooks --as claude` of 0.1.0 wrote: all clients as @claude. */
async function aMachineOfOld(): Promise<InstallMachine> {
  const machine = await aMachine();
  const fixture = readFileSync(new URL('../fixtures/settings/0.1.0.json', import.meta.url), 'utf8');
  await machine.does('parley', ['init', 'claude']);
  return machine.with(JSON.parse(fixture.replaceAll('@HOME@', machine.program.home)) as Record<string, string>);
}

describe('the lines that 0.1.0 wrote', () => {
  it('keep working', async () => {
    const machine = await aMachineOfOld();
    await machine.does('parley', ['send', '@claude', 'CANARY']);
    const line = lineIn(machine, '.codex/hooks.json');
    expect(line).toBe('sh ~/.parley/hook codex --as claude');
    expect(machine.runsLine(line).out).toContain('CANARY');
    const server = new McpClient({ home: machine.program.home, env: machine.env() }, ['--as', 'claude']);
    await server.initialize();
    expect((await server.call('agents')).text).toStartWith('you are @claude');
    await server.end();
  });

  it('keep working without --as, as the agent of the home, while no client has a mailbox of its own', async () => {
    const machine = await aMachineOfOld();
    await machine.does('parley', ['init', 'claude', '--default']);
    await machine.does('parley', ['send', '@claude', 'CANARY']);
    expect(machine.runsLine('sh ~/.parley/hook codex').out).toContain('CANARY');
  });

  it('are named by `parley doctor`', async () => {
    const machine = await aMachineOfOld();
    const { out } = await machine.run('parley', ['doctor']);
    expect(out).toContain(`Codex has a line of an older Parley in ${machine.at('.codex/hooks.json')} and `);
    expect(out).toContain('Kimi has a line of an older Parley in ');
    await machine.does('parley', ['install', 'claude', 'codex', 'kimi', 'gemini']);
    expect((await machine.run('parley', ['doctor'])).out).not.toContain('older Parley');
  });

  it('are replaced, and it is said what follows', async () => {
    const machine = await aMachineOfOld();
    const said = await machine.does('parley', ['install', 'codex']);
    expect(said).toMatch(/replaced {3}hook at .*Stop/);
    expect(said).toContain('replaced   MCP server');
    expect(said).toContain('its older settings named @claude; its mailbox is @codex now');
    expect(said).toContain('Codex does not run it before you trust it once more');
    expect(machine.read('.codex/hooks.json') + machine.read('.codex/config.toml')).not.toContain('--as');
    await machine.does('parley', ['install', '--uninstall']);
    expect(machine.read('.codex/config.toml')).toBe('model = "gpt"\n');
    expect(existsSync(machine.at('.codex/hooks.json'))).toBe(false);
  });
});

describe('a hook line', () => {
  const LINES = ['.claude/settings.json', '.codex/hooks.json', '.gemini/settings.json', '.kimi-code/config.toml'];

  it.each([['dash'], ['bash'], ['bash --posix']])(
    'ends with 0 and prints nothing under %s without its script',
    async (shell) => {
      const machine = await aMachine({ '.claude/': '' });
      for (const name of ['claude', 'codex', 'gemini', 'kimi']) {
        await machine.does('parley', ['install', name]);
        await machine.does('c2c', ['install', name, ...(name === 'codex' ? ['--hooks'] : [])]);
      }
      await machine.does('bch', ['init', 'me']);
      await machine.does('bch', ['setup']);
      const lines = LINES.flatMap((path) => linesIn(machine, path));
      expect(lines.length).toBeGreaterThan(15);
      for (const path of ['.parley', '.local/share/c2c', '.claude/hooks'])
        rmSync(machine.at(path), { recursive: true });
      for (const line of lines) {
        const gone = line.replaceAll(PARLEY, machine.at('gone'));
        expect(machine.runsLine(gone, 'Stop', shell.split(' '))).toEqual({ out: '', err: '', code: 0 });
      }
    },
  );

  it('ends in the name of the client, also for a home with blanks and quotes in its path', async () => {
    const machine = await aMachine();
    const home = machine.at("a home's place");
    const env = { PARLEY_HOME: home };
    await machine.does('parley', ['install', 'claude'], { env });
    await machine.does('parley', ['send', '@claude', 'CANARY', '--as', 'claude'], { env });
    const line = lineIn(machine, '.claude/settings.json');
    expect(line).toEndWith('/hook claude');
    expect(machine.runsLine(line).out).toContain('CANARY');
    renameSync(home, `${home} elsewhere`);
    expect(machine.runsLine(line)).toEqual({ out: '', err: '', code: 0 });
  });

  it('passes on the exit code by which Kimi gets mail at the end of a turn', async () => {
    const machine = await aMachine();
    await machine.does('parley', ['install', 'kimi']);
    await machine.does('parley', ['send', '@kimi', 'CANARY']);
    const [line = ''] = linesIn(machine, '.kimi-code/config.toml');
    expect(machine.runsLine(line, 'Stop')).toMatchObject({ code: 2, err: expect.stringContaining('CANARY') });
  });
});

/** The commands of all hooks in a settings file, JSON or TOML. */
function linesIn(machine: InstallMachine, path: string): string[] {
  const text = machine.read(path);
  return [...text.matchAll(/"?command"? ?[:=] ?("(?:[^"\\]|\\.)*")/g)]
    .map(([, line = '']) => JSON.parse(line) as string)
    .filter((line) => line !== PARLEY);
}

/** The command of Parley's hook at an event. */
function lineIn(machine: InstallMachine, path: string, event = 'PostToolUse'): string {
  const { hooks } = machine.json(path) as { hooks: Record<string, [{ hooks: [{ command: string }] }]> };
  return hooks[event]?.[0].hooks[0].command ?? '';
}

/** The command of the server in Codex's settings. */
function serverOf(machine: InstallMachine): string[] {
  const settings = Bun.TOML.parse(machine.read('.codex/config.toml')) as {
    mcp_servers: { parley: { command: string; args: string[] } };
  };
  const { command, args } = settings.mcp_servers.parley;
  return [command, ...args];
}

describe('`parley install` and its undoing', () => {
  it.each(Object.entries(HOMES))('leave every byte of a home with %s as it was', async (_name, { files }) => {
    const machine = await aMachine(files);
    const before = machine.outside;
    const { clients } = await install(machine, CLIENTS);
    const changes = clients.flatMap((one) => one.changes);
    expect(changes.filter(({ outcome }) => outcome !== 'added')).toEqual([]);
    const after = machine.outside;
    const listed = changes.flatMap(({ path, backup }) => [path, backup]).filter((path) => path !== null);
    expect(changedFiles(before, after).filter((path) => path !== '.local/share/parley/installed.json')).toEqual(
      [...new Set(listed)].map((path) => path.slice(machine.program.home.length + 1)).sort(),
    );
    for (const [path, text] of Object.entries(files))
      if (!path.endsWith('/')) expect(isWithin(text, machine.read(path))).toBe(true);
    const again = await install(machine, CLIENTS);
    expect(again.clients.flatMap((one) => one.changes).filter(({ outcome }) => outcome !== 'there')).toEqual([]);
    expect(machine.outside).toEqual(after);
    await machine.does('parley', ['install', '--uninstall']);
    expect(machine.outside).toEqual(before);
  });

  it('take out of one client only, when one is named', async () => {
    const machine = await aMachine();
    await install(machine, ['claude', 'kimi']);
    const said = await machine.does('parley', ['install', 'kimi', '--uninstall']);
    expect(said).toStartWith('Kimi:\n  removed      MCP server: ');
    expect(existsSync(machine.at('.kimi-code'))).toBe(false);
    expect(existsSync(machine.at('.claude.json'))).toBe(true);
  });

  it('go on with the other files when one cannot be read any more, and try it again the next time', async () => {
    const machine = await aMachine();
    const before = machine.outside;
    await install(machine, ['claude', 'gemini']);
    const settings = readFileSync(machine.at('.claude/settings.json'));
    writeFileSync(machine.at('.claude/settings.json'), '{"half');
    const { out, code } = await machine.run('parley', ['install', '--uninstall']);
    expect(out).toContain('left alone   hook at Stop');
    expect(code).toBe(1);
    expect(existsSync(machine.at('.gemini'))).toBe(false);
    writeFileSync(machine.at('.claude/settings.json'), settings);
    await machine.does('parley', ['install', '--uninstall']);
    expect(machine.outside).toEqual(before);
  });
});
