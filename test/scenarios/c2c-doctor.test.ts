import { describe, expect, it } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { InstallMachine } from '../support/install-home.ts';

interface Finding {
  about: string;
  what: string;
  next?: string;
}

/** A session that lives in this process. */
async function register(machine: InstallMachine, alias: string, client: string, session = `s-${alias}`): Promise<void> {
  const env = { C2C_MCP_SESSION_ID: session, C2C_MCP_CLIENT_TYPE: client, C2C_MCP_CLIENT_PID: String(process.pid) };
  await machine.does('c2c', ['register', alias], { env });
}

async function findings(machine: InstallMachine, name: 'c2c' | 'parley'): Promise<Finding[]> {
  const { out } = await machine.run(name, ['doctor', '--json']);
  return (JSON.parse(out) as { findings: Finding[] }).findings;
}

describe('`c2c doctor` and `parley doctor`', () => {
  it('say for each session which way its mail comes, why, and what would be better [C2C-38]', async () => {
    const machine = new InstallMachine().with({ '.codex/': '' });
    await machine.does('c2c', ['install', 'claude']);
    await register(machine, 'ada', 'claude');
    await register(machine, 'bob', 'codex');
    await register(machine, 'cyd', 'kimi');
    await register(machine, 'dan', 'opencode', 'opencode-project');
    await machine.does('c2c', ['install', 'opencode']);
    machine.with({
      '.local/share/c2c/loops/s-cyd.json': JSON.stringify({
        kind: 'wake',
        session: 's-cyd',
        client: 'kimi',
        terminal: 'tmux:%1',
        broker_root: machine.at('.c2c/repos/default/broker'),
        options: {},
      }),
    });
    for (const name of ['c2c', 'parley'] as const) {
      const told = (await findings(machine, name)).filter(({ about }) => about.startsWith('session '));
      expect(Object.fromEntries(told.map(({ about, what, next }) => [about, [what, next]]))).toEqual({
        'session ada': ['claude: hook (primary), because its hook looks after every tool call', undefined],
        'session bob': [
          'codex: poll (baseline), because nothing brings its mail: that waits until the session asks for it',
          expect.stringContaining('wake is better'),
        ],
        'session cyd': [
          'kimi: poll (baseline), because nothing brings its mail: that waits until the session asks for it',
          'the wake loop that is wanted for it does not run: `parley up --with loops`',
        ],
        'session dan': ['opencode: plugin (primary), because the plugin hands mail to its session', undefined],
      });
    }
  });

  it('name the clients that are here, and which of our names is in them', async () => {
    const machine = new InstallMachine().with({ '.gemini/': '' }).fake('codex');
    await machine.does('parley', ['init', 'me']);
    await machine.does('parley', ['install', 'gemini']);
    const told = (await findings(machine, 'parley')).filter(({ about }) => about === 'codex' || about === 'gemini');
    expect(told).toMatchObject([
      {
        what: 'Codex is here; parley is not in it, c2c is not in it',
        next: expect.stringContaining('parley install codex'),
      },
      { what: 'Gemini CLI is here; parley is in it (hook and tools), c2c is not in it' },
    ]);
  });

  it('do not count a hook of Codex that its user has not trusted', async () => {
    const machine = new InstallMachine();
    await machine.does('c2c', ['install', 'codex', '--hooks']);
    await register(machine, 'bob', 'codex');
    const way = async (): Promise<string | undefined> =>
      (await findings(machine, 'c2c')).find(({ about }) => about === 'session bob')?.what;
    expect(await way()).toStartWith('codex: poll (baseline)');
    const client = (await findings(machine, 'c2c')).find(({ about }) => about === 'codex');
    expect(client?.what).toContain('c2c is in it (hook that is not known to be trusted and tools)');
    const trust = `\n[hooks.state."${machine.at('.codex/hooks.json')}:post_tool_use:0:0"]\ntrusted_hash = "sha256:00"\n`;
    writeFileSync(machine.at('.codex/config.toml'), machine.read('.codex/config.toml') + trust);
    expect(await way()).toStartWith('codex: hook (fallback)');
  });

  it('change nothing', async () => {
    const machine = new InstallMachine();
    await machine.does('c2c', ['install', 'kimi']);
    await register(machine, 'cyd', 'kimi');
    const before = machine.snapshot();
    await machine.does('c2c', ['doctor']);
    expect(machine.snapshot()).toEqual(before);
  });
});
