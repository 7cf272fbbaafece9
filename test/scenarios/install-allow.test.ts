import { describe, expect, it } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { HOMES, InstallMachine } from '../support/install-home.ts';

const CLIENTS = ['claude', 'codex', 'opencode', 'kimi', 'gemini'];
const REPLY = ['mcp__parley__reply', 'mcp__parley__react'];
const ALL = ['inbox', 'read', 'reply', 'send', 'react', 'claim', 'defer', 'done', 'agents'];
const RULES = /mcp__parley__|approval_mode|"permissions?"/;

async function aMachine(files: Record<string, string> = {}): Promise<InstallMachine> {
  const machine = new InstallMachine().with(files);
  await machine.does('parley', ['init', 'me']);
  return machine;
}

/** The tools of Parley that run without a dialog, in each of the three clients. */
function allowedIn(machine: InstallMachine): string[][] {
  const claude = machine.json('.claude/settings.json') as { permissions: { allow: string[] } };
  const codex = Bun.TOML.parse(machine.read('.codex/config.toml')) as { mcp_servers: { parley: { tools: object } } };
  const opencode = [...machine.read('.config/opencode/opencode.json').matchAll(/"parley_(\w+)": "allow"/g)];
  return [
    claude.permissions.allow.flatMap((rule) => /^mcp__parley__(\w+)$/.exec(rule)?.[1] ?? []),
    Object.keys(codex.mcp_servers.parley.tools),
    opencode.map(([, tool = '']) => tool),
  ].map((tools) => tools.sort());
}

describe('the rules that let a model answer without a dialog', () => {
  it('are not added unless the user asks for them, also not by --yes', async () => {
    const machine = await aMachine({ '.claude/': '', '.codex/': '' });
    const said = await machine.does('parley', ['install', '--yes']);
    expect(JSON.stringify(machine.outside)).not.toMatch(RULES);
    expect(said).toContain('To let it answer without a dialog: parley install claude --allow reply');
  });

  it('are those of the two tools that answer, in each client with such rules', async () => {
    const machine = await aMachine();
    const said = await machine.userInstalls(...CLIENTS, '--allow', 'reply');
    expect(machine.json('.claude/settings.json')).toMatchObject({ permissions: { allow: REPLY } });
    expect(Bun.TOML.parse(machine.read('.codex/config.toml'))).toMatchObject({
      mcp_servers: {
        parley: {
          tools: { reply: { approval_mode: 'approve' }, react: { approval_mode: 'approve' } },
        },
      },
    });
    expect(machine.json('.config/opencode/opencode.json')).toMatchObject({
      permission: { parley_reply: 'allow', parley_react: 'allow' },
    });
    expect(said).toContain('Kimi has no allow rule that is known to work: it goes on asking');
    expect(said).toContain('Gemini CLI has no allow rule that is known to work: it goes on asking');
    expect(machine.read('.gemini/settings.json')).not.toContain('trust');
    expect(said).toContain(
      'Its model answers those who wrote to it without asking you; these rules do not let it write to others',
    );
  });

  it('are those of all tools when the user says so', async () => {
    const machine = await aMachine();
    await machine.userInstalls('claude', '--allow', 'tools');
    const { permissions } = machine.json('.claude/settings.json') as { permissions: { allow: string[] } };
    expect(permissions.allow).toEqual(ALL.map((tool) => `mcp__parley__${tool}`));
  });

  it('become fewer when the user allows less', async () => {
    const machine = await aMachine();
    await machine.userInstalls(...CLIENTS, '--allow', 'tools');
    const said = await machine.userInstalls(...CLIENTS, '--allow', 'reply');
    expect(said.match(/removed +allow rule for send: /g)).toHaveLength(3);
    expect(machine.json('.claude/settings.json')).toMatchObject({ permissions: { allow: REPLY } });
    expect(allowedIn(machine)).toEqual([
      ['react', 'reply'],
      ['react', 'reply'],
      ['react', 'reply'],
    ]);
  });

  it('are added at a terminal only if they are named after `yes`', async () => {
    const machine = await aMachine({ '.claude/': '' });
    const env = { ...machine.env(), PATH: '/usr/bin:/bin' };
    const no = await machine.program.atTerminal(['install'], 'yes', { env });
    expect(no.shown).toContain('reply    A model that answers mail may stop at a permission dialog of');
    expect(machine.json('.claude/settings.json')).not.toHaveProperty('permissions');
    const other = await aMachine({ '.claude/': '' });
    await other.program.atTerminal(['install'], 'yes reply', { env: { ...other.env(), PATH: '/usr/bin:/bin' } });
    expect(other.json('.claude/settings.json')).toMatchObject({ permissions: { allow: REPLY } });
  });

  it('cannot be added by the model that would use them', async () => {
    const machine = await aMachine();
    const env = { CLAUDECODE: '1' };
    const { err, code } = await machine.run('parley', ['install', 'claude', '--allow', 'reply'], { env });
    expect(err).toContain('Only the user can allow tools. A client started this process (CLAUDECODE is set)');
    expect(code).toBe(77);
    expect(JSON.stringify(machine.outside)).not.toMatch(RULES);
  });

  it('come with a line that says where such mail can go', async () => {
    const machine = await aMachine();
    await machine.program.atTerminal(['init', 'ann', '--human'], 'yes', { env: machine.env() });
    const said = await machine.userInstalls('claude', '--allow', 'tools');
    expect(said).toContain('Its model sends mail without asking you, to every agent of this home, to people (@ann)');
  });

  it('are refused by a word that is no grant', async () => {
    const { err, code } = await (await aMachine()).run('parley', ['install', 'claude', '--allow', 'all']);
    expect({ err: err.trim(), code }).toEqual({ err: 'parley: --allow is reply, tools or none', code: 64 });
  });

  it('stay when the server below which Codex keeps them is replaced, also after Codex wrote to the same file', async () => {
    const machine = await aMachine();
    await machine.userInstalls('codex', '--allow', 'reply');
    const tui = '\n[tui]\ntheme = "x"\n';
    writeFileSync(machine.at('.codex/config.toml'), machine.read('.codex/config.toml') + tui);
    const env = { PARLEY_HOME: machine.at('.parley') };
    const said = await machine.does('parley', ['install', 'codex'], { env });
    expect(said).toMatch(/replaced +MCP server/);
    expect(Bun.TOML.parse(machine.read('.codex/config.toml'))).toMatchObject({
      mcp_servers: { parley: { env, tools: { react: { approval_mode: 'approve' } } } },
      tui: { theme: 'x' },
    });
    await machine.does('parley', ['install', '--uninstall'], { env });
    expect(machine.read('.codex/config.toml').trim()).toBe(tui.trim());
  });

  it.each(Object.entries(HOMES))('go again with every byte from a home with %s', async (_name, { files }) => {
    const machine = await aMachine(files);
    const before = machine.outside;
    await machine.userInstalls(...CLIENTS, '--hooks', '--allow', 'tools');
    expect(JSON.stringify(machine.outside)).toMatch(RULES);
    await machine.does('parley', ['install', '--uninstall']);
    expect(machine.outside).toEqual(before);
  });
});

describe('the rules that 0.1.0 wrote for its tools', () => {
  type Grant = 'reply' | 'tools';
  const FILES = ['.claude/settings.json', '.codex/config.toml', '.config/opencode/opencode.json'];
  const THEIRS = FILES.map((path) => `${path}.before-parley`);

  /** A home with what `parley install claude codex opencode --no-hooks --allow …` of 0.1.0 wrote, and those files as they were before. */
  async function aMachineOfOld(grant: Grant): Promise<{ machine: InstallMachine; before: string[] }> {
    const machine = await aMachine();
    const fixture = readFileSync(new URL('../fixtures/settings/0.1.0-allow.json', import.meta.url), 'utf8');
    const homes = JSON.parse(fixture.replaceAll('@HOME@', machine.program.home)) as Record<
      Grant,
      Record<string, string>
    >;
    machine.with(homes[grant]);
    return { machine, before: THEIRS.map((path) => machine.read(path)) };
  }

  it.each(['reply', 'tools'] as const)('go with every byte (--allow %s)', async (grant) => {
    const { machine, before } = await aMachineOfOld(grant);
    await machine.does('parley', ['install', '--uninstall']);
    expect(FILES.map((path) => machine.read(path))).toEqual(before);
  });

  it.each([
    ['reply', ['reply', 'react']],
    ['tools', ALL],
  ] as const)('become rules for the tools of today, and never more (--allow %s)', async (grant, tools) => {
    const { machine, before } = await aMachineOfOld(grant);
    const said = await machine.does('parley', ['install', 'claude', 'codex', 'opencode']);
    expect(said.match(/replaced +allow rule for reply: /g)).toHaveLength(3);
    expect(FILES.map((path) => machine.read(path)).join('')).not.toContain('chat_');
    expect(allowedIn(machine)).toEqual([[...tools].sort(), [...tools].sort(), [...tools].sort()]);
    const again = await machine.does('parley', ['install', 'claude', 'codex', 'opencode']);
    expect(again).not.toMatch(/added|replaced/);
    await machine.does('parley', ['install', '--uninstall']);
    expect(FILES.map((path) => machine.read(path))).toEqual(before);
  });

  it('go where the user allows less now', async () => {
    const { machine, before } = await aMachineOfOld('tools');
    await machine.userInstalls('claude', 'codex', 'opencode', '--allow', 'reply');
    expect(FILES.map((path) => machine.read(path)).join('')).not.toContain('chat_');
    expect(allowedIn(machine)).toEqual([
      ['react', 'reply'],
      ['react', 'reply'],
      ['react', 'reply'],
    ]);
    await machine.does('parley', ['install', '--uninstall']);
    expect(FILES.map((path) => machine.read(path))).toEqual(before);
  });

  it('stay where the user changed them, and what the user wrote stays too', async () => {
    const { machine } = await aMachineOfOld('reply');
    const changed = machine
      .read('.codex/config.toml')
      .replace('chat_react]\napproval_mode = "approve"', 'chat_react]\napproval_mode = "prompt"');
    writeFileSync(machine.at('.codex/config.toml'), `${changed}\n[tui]\ntheme = "x"\n`);
    const said = await machine.does('parley', ['install', 'codex']);
    expect(said).toMatch(/replaced +allow rule for reply: /);
    expect(said).toMatch(/left alone +allow rule for react: /);
    expect(Bun.TOML.parse(machine.read('.codex/config.toml'))).toMatchObject({
      mcp_servers: {
        parley: { tools: { reply: { approval_mode: 'approve' }, chat_react: { approval_mode: 'prompt' } } },
      },
      tui: { theme: 'x' },
    });
  });

  it('are no rules for the tools of today: `parley doctor` says so', async () => {
    const { machine } = await aMachineOfOld('reply');
    const { out } = await machine.run('parley', ['doctor']);
    expect(out).toContain('Claude Code may ask you before its model answers mail');
    await machine.does('parley', ['install', 'claude', '--no-hooks']);
    expect((await machine.run('parley', ['doctor'])).out).not.toContain('Claude Code may ask you');
  });
});

describe('the skill', () => {
  const PLACES = ['.claude', '.codex', '.config/opencode', '.kimi-code'].map((one) => `${one}/skills/parley/SKILL.md`);

  it('is written where each client looks for it, and goes again', async () => {
    const machine = await aMachine();
    const before = machine.outside;
    await machine.does('parley', ['install', ...CLIENTS]);
    const text = readFileSync(new URL('../../SKILL.md', import.meta.url), 'utf8');
    expect(PLACES.map((path) => machine.read(path))).toEqual(PLACES.map(() => text));
    await machine.does('parley', ['install', '--uninstall']);
    expect(machine.outside).toEqual(before);
  });

  it('never replaces one that the user has changed', async () => {
    const machine = await aMachine({ '.claude/skills/parley/SKILL.md': 'mine' });
    expect(await machine.does('parley', ['install', 'claude'])).toMatch(/left alone +skill: /);
    await machine.does('parley', ['install', '--uninstall']);
    expect(machine.read('.claude/skills/parley/SKILL.md')).toBe('mine');
  });
});
