import { describe, expect, it } from 'bun:test';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { changedFiles, HOMES, InstallMachine, isWithin } from '../support/install-home.ts';

const PROGRAM = new URL('../../bin/parley', import.meta.url).pathname;
const CLIENTS = ['claude', 'codex', 'opencode', 'kimi', 'gemini'];

interface Installed {
  agent: string;
  dryRun: boolean;
  clients: { client: string; refused: string | null; advice: string[]; changes: Change[] }[];
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
      mcpServers: { parley: { type: 'stdio', command: PROGRAM, args: ['mcp', '--as', 'me'] } },
    });
  });

  it('adds to each other client what it has: hooks, tools, or both', async () => {
    const machine = await aMachine();
    const { agent, clients } = await install(machine, [...CLIENTS, '--hooks']);
    expect(agent).toBe('me');
    const whats = Object.fromEntries(clients.map(({ client, changes }) => [client, changes.map(({ what }) => what)]));
    expect(whats).toMatchObject({
      codex: ['hook at SessionStart', 'hook at UserPromptSubmit', 'hook at PostToolUse', 'hook at Stop', 'MCP server'],
      opencode: ['MCP server'],
      kimi: ['hook', 'MCP server'],
      gemini: ['hook at SessionStart', 'hook at BeforeAgent', 'hook at AfterTool', 'hook at AfterAgent', 'MCP server'],
    });
    expect(machine.json('.config/opencode/opencode.json')).toEqual({
      mcp: { parley: { type: 'local', command: [PROGRAM, 'mcp', '--as', 'me'], enabled: true } },
    });
    expect(machine.read('.kimi-code/config.toml')).toContain('command = "sh ~/.parley/hook kimi"');
    expect(JSON.stringify(machine.outside)).not.toMatch(
      /trusted_hash|approval_mode|trust_level|"trust"|"permissions"|"crossSessionInbound"/,
    );
  });

  it('writes a hook that runs', async () => {
    const machine = await aMachine();
    await machine.does('parley', ['init', 'codex']);
    await machine.does('parley', ['install', 'claude']);
    await machine.does('parley', ['send', '@me', 'CANARY', '--as', 'codex']);
    const { hooks } = machine.json('.claude/settings.json') as {
      hooks: Record<string, [{ hooks: [{ command: string }] }]>;
    };
    const event = { session_id: 's1', cwd: machine.at('project'), hook_event_name: 'PostToolUse' };
    const child = Bun.spawnSync(['sh', '-c', hooks['PostToolUse']?.[0].hooks[0].command ?? ''], {
      env: machine.env(),
      stdin: Buffer.from(JSON.stringify(event)),
    });
    expect(child.stdout.toString()).toContain('CANARY');
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
    expect([...out.matchAll(/^(\S.*), as @me:$/gm)].map(([, title]) => title)).toEqual(['Codex', 'Gemini CLI']);
    expect(out).toContain('would add');
    expect(err).toContain('nothing was changed; to do this: parley install --yes');
    expect(code).toBe(0);
    expect(machine.outside).toEqual(before);
    expect(await machine.does('parley', ['install', '--yes'])).toContain('added');
    expect(machine.read('.codex/config.toml')).toContain('[mcp_servers.parley]');
  });

  it('asks a person at a terminal, and only the whole word counts', async () => {
    const machine = await aMachine({ '.gemini/': '' });
    const before = machine.outside;
    const env = { ...machine.env(), PATH: '/usr/bin:/bin' };
    const no = await machine.program.atTerminal(['install'], 'y', { env });
    expect(no.shown).toContain('Shall this be done? Type yes:');
    expect(no.shown).toContain('nothing was changed');
    expect(machine.outside).toEqual(before);
    const yes = await machine.program.atTerminal(['install'], 'yes', { env });
    expect(yes.code).toBe(0);
    expect(machine.json('.gemini/settings.json')).toHaveProperty('mcpServers.parley');
  });

  it('needs a mailbox first, and a client that it knows', async () => {
    const machine = new InstallMachine();
    expect((await machine.run('parley', ['install', 'claude'])).err).toContain('run `parley init <name>` first');
    await machine.does('parley', ['init', 'me']);
    expect((await machine.run('parley', ['install', 'vim'])).err).toContain(
      'no client is called "vim"; use some of claude',
    );
    expect((await machine.run('parley', ['install'])).err).toContain('no client that Parley knows is here');
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

describe('`parley install` and its undoing', () => {
  it.each(Object.entries(HOMES))('leave every byte of a home with %s as it was', async (_name, { files }) => {
    const machine = await aMachine(files);
    const before = machine.outside;
    const { clients } = await install(machine, [...CLIENTS, '--hooks']);
    const changes = clients.flatMap((one) => one.changes);
    expect(changes.filter(({ outcome }) => outcome !== 'added')).toEqual([]);
    const after = machine.outside;
    const listed = changes.flatMap(({ path, backup }) => [path, backup]).filter((path) => path !== null);
    expect(changedFiles(before, after).filter((path) => path !== '.local/share/parley/installed.json')).toEqual(
      [...new Set(listed)].map((path) => path.slice(machine.program.home.length + 1)).sort(),
    );
    for (const [path, text] of Object.entries(files))
      if (!path.endsWith('/')) expect(isWithin(text, machine.read(path))).toBe(true);
    const again = await install(machine, [...CLIENTS, '--hooks']);
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
