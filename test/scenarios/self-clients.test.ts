import { describe, expect, it } from 'bun:test';
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { HOMES, InstallMachine } from '../support/install-home.ts';

const CONFIG = 'model = "gpt"\n\n[projects."/abs"]\ntrust_level = "trusted"\n';
const THEIRS = JSON.stringify({ hooks: { Stop: [{ hooks: [{ type: 'command', command: 'echo theirs' }] }] } });

/** What Codex writes when its user trusts the hooks at these places, and lets a tool of a server run unasked. */
function codexWrites(machine: InstallMachine, places: string[]): void {
  const tables = places.map(
    (place) => `\n[hooks.state."${machine.at('.codex/hooks.json')}:${place}"]\ntrusted_hash = "sha256:00"\n`,
  );
  const tool = '\n[mcp_servers.parley.tools.agents]\napproval_mode = "approve"\n';
  appendFileSync(machine.at('.codex/config.toml'), `\n[hooks.state]\n${tables.join('')}${tool}`);
}

describe('`parley self uninstall`', () => {
  it.each(Object.entries(HOMES))('leaves every byte of a home with %s as it was', async (_name, { files }) => {
    const machine = new InstallMachine().with({ '.claude/': '', ...files });
    const before = machine.snapshot();
    await machine.does('parley', ['install', 'claude', 'codex', 'opencode', 'kimi', 'gemini']);
    for (const client of ['claude', 'codex', 'kimi']) await machine.does('c2c', ['install', client]);
    await machine.does('bch', ['setup']);
    await machine.does('parley', ['self', 'uninstall', '--purge', '--yes']);
    expect(machine.snapshot()).toEqual(before);
  });

  it('takes our lines out of a file that we made and a client has written to since', async () => {
    const machine = new InstallMachine().with({ '.claude/': '' });
    await machine.does('parley', ['install', 'claude']);
    const ours = JSON.parse(machine.read('.claude/settings.json')) as Record<string, unknown>;
    writeFileSync(machine.at('.claude/settings.json'), `${JSON.stringify({ ...ours, theme: 'dark' }, null, 2)}\n`);
    await machine.does('parley', ['self', 'uninstall', '--purge', '--yes']);
    expect(JSON.parse(machine.read('.claude/settings.json'))).toEqual({ theme: 'dark' });
  });

  it('stops the service of `bch setup --wake`', async () => {
    const machine = new InstallMachine().with({ '.claude/': '' });
    const before = machine.snapshot();
    await machine.does('bch', ['setup', '--wake']);
    await machine.does('parley', ['self', 'uninstall', '--purge', '--yes']);
    expect(machine.called.slice(2)).not.toEqual([]);
    expect(machine.snapshot()).toEqual(before);
  });

  it('removes what Codex wrote about our hook and tools, and no table of another hook', async () => {
    const machine = new InstallMachine().with({ '.codex/config.toml': CONFIG, '.codex/hooks.json': THEIRS });
    await machine.does('parley', ['install', 'codex']);
    codexWrites(machine, ['session_start:0:0', 'stop:0:0', 'stop:1:0']);
    appendFileSync(machine.at('.codex/config.toml'), '\n[tui]\nseen = true\n');
    const said = await machine.does('parley', ['self', 'uninstall', '--purge', '--yes']);
    expect(said).toContain(`[hooks.state."${machine.at('.codex/hooks.json')}:…"] (2 tables)`);
    const theirs = `\n[hooks.state]\n\n[hooks.state."${machine.at('.codex/hooks.json')}:stop:0:0"]\ntrusted_hash = "sha256:00"\n`;
    expect(machine.read('.codex/config.toml')).toBe(`${CONFIG}${theirs}\n[tui]\nseen = true\n`);
    expect(machine.read('.codex/hooks.json')).toBe(THEIRS);
    expect(existsSync(machine.at('.codex/config.toml.before-parley'))).toBe(false);
  });

  it('refuses while a client cannot be cleaned, and names it', async () => {
    const machine = new InstallMachine();
    await machine.does('parley', ['install', 'claude', 'gemini']);
    const settings = readFileSync(machine.at('.claude/settings.json'));
    writeFileSync(machine.at('.claude/settings.json'), '{"half');
    const before = machine.outside;
    const { err, code } = await machine.run('parley', ['self', 'uninstall', '--purge', '--yes']);
    expect(err).toContain(`it was not uninstalled: claude: ${machine.at('.claude/settings.json')} is not valid JSON`);
    expect(code).not.toBe(0);
    expect(machine.outside).toEqual(before);
    expect(existsSync(machine.at('.parley/hook'))).toBe(true);
    writeFileSync(machine.at('.claude/settings.json'), settings);
    await machine.does('parley', ['self', 'uninstall', '--purge', '--yes']);
  });

  it.each([
    ['a settings file that is no JSON', () => '{"half'],
    ['a hook that was edited', (text: string) => text.replaceAll('/hook claude', '/hook claude --as me')],
  ])('changes nothing at all while it refuses because of %s, and names that file once', async (_name, edit) => {
    const machine = new InstallMachine().with({ '.codex/config.toml': CONFIG });
    await machine.does('parley', ['install', 'claude', 'codex', 'gemini']);
    codexWrites(machine, ['session_start:0:0', 'stop:0:0']);
    const settings = machine.at('.claude/settings.json');
    writeFileSync(settings, edit(machine.read('.claude/settings.json')));
    const [before, bindings] = [machine.outside, machine.read('.parley/clients.json')];
    const { err, code } = await machine.run('parley', ['self', 'uninstall', '--purge', '--yes']);
    expect(code).not.toBe(0);
    expect(err.split(settings)).toHaveLength(2);
    expect(machine.outside).toEqual(before);
    expect(machine.read('.parley/clients.json')).toBe(bindings);
  });

  it('refuses where a line was written or edited by hand, and goes on when that line is gone', async () => {
    const machine = new InstallMachine();
    await machine.does('parley', ['install', 'gemini']);
    const edited = machine.read('.gemini/settings.json').replaceAll('/hook gemini', '/hook gemini --as me');
    writeFileSync(machine.at('.gemini/settings.json'), edited);
    const { err } = await machine.run('parley', ['self', 'uninstall', '--purge', '--yes']);
    const settings = machine.at('.gemini/settings.json');
    expect(err).toContain(`gemini: ${settings} was changed by hand; remove hook at SessionStart, `);
    expect(existsSync(machine.at('.parley/hook'))).toBe(true);
    writeFileSync(settings, '{}');
    machine.with({ '.kimi-code/mcp.json': '{"mcpServers":{"parley":{"command":"parley"}}}\n' });
    const gone = await machine.run('parley', ['self', 'uninstall', '--purge', '--yes']);
    expect(gone.code).toBe(0);
    expect(gone.err).toContain(`kimi: MCP server in ${machine.at('.kimi-code/mcp.json')} still starts Parley`);
  });
});

describe('`parley install --uninstall`', () => {
  const codex = async (): Promise<InstallMachine> => {
    const machine = new InstallMachine().with({ '.codex/config.toml': CONFIG });
    await machine.does('parley', ['install', 'codex']);
    codexWrites(machine, ['session_start:0:0', 'user_prompt_submit:0:0', 'post_tool_use:0:0', 'stop:0:0']);
    return machine;
  };

  it('asks a person whether what Codex wrote goes, too', async () => {
    const machine = await codex();
    const { shown } = await machine.program.atTerminal(['install', '--uninstall'], 'yes', { env: machine.env() });
    const file = `${machine.at('.codex/hooks.json')}:`;
    expect(shown).toContain(
      `Codex wrote about Parley into ${machine.at('.codex/config.toml')}: [hooks.state."${file}…"] (`,
    );
    expect(shown.split(file)).toHaveLength(2);
    expect(shown).toContain('Remove that, too? Type yes:');
    expect(machine.read('.codex/config.toml')).toBe(CONFIG);
  });

  it('names it and leaves it without a terminal, and includes it with --yes', async () => {
    const machine = await codex();
    const { out } = await machine.run('parley', ['install', '--uninstall']);
    expect(out).toContain('what Codex wrote about Parley, for you to remove: ');
    expect(machine.read('.codex/config.toml')).toContain('[hooks.state."');
    const other = await codex();
    await other.does('parley', ['install', '--uninstall', '--yes']);
    expect(other.read('.codex/config.toml')).toBe(CONFIG);
    expect(existsSync(other.at('.codex/config.toml.before-parley'))).toBe(false);
  });
});
