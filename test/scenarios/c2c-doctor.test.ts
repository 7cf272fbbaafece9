import { describe, expect, it } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { InstallMachine } from '../support/install-home.ts';

interface Finding {
  level: 'ok' | 'warn' | 'bad';
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

/** What Codex writes when its user trusts hooks of a file. */
function trust(machine: InstallMachine, hooks: string[]): void {
  const file = machine.at('.codex/hooks.json');
  const notes = hooks.map((hook) => `\n[hooks.state."${file}:${hook}"]\ntrusted_hash = "sha256:00"\n`);
  writeFileSync(machine.at('.codex/config.toml'), machine.read('.codex/config.toml') + notes.join(''));
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
      expect(Object.fromEntries(told.map(({ level, about, what, next }) => [about, [level, what, next]]))).toEqual({
        'session ada': [
          'ok',
          'claude: hook (primary), because its hook looks for mail after every tool call',
          undefined,
        ],
        'session bob': [
          'warn',
          'codex: poll (baseline), because no hook, plugin or loop brings its mail: it waits until the session asks for it',
          expect.stringContaining('wake is better'),
        ],
        'session cyd': [
          'warn',
          'kimi: poll (baseline), because no hook, plugin or loop brings its mail: it waits until the session asks for it',
          'the wake loop that is wanted for it does not run: `parley up --with loops`',
        ],
        'session dan': ['ok', 'opencode: plugin (primary), because the plugin hands mail to its session', undefined],
      });
    }
  });

  it('name a client that they do not know as such', async () => {
    const machine = new InstallMachine();
    await register(machine, 'eve', 'emacs');
    for (const name of ['c2c', 'parley'] as const) {
      const told = (await findings(machine, name)).find(({ about }) => about === 'session eve');
      expect(told?.what).toStartWith('emacs, a client that Parley does not know: poll (baseline)');
    }
  });

  it('name the clients that are here, and which of our names is in them', async () => {
    const machine = new InstallMachine().with({ '.gemini/': '' }).fake('codex');
    await machine.does('parley', ['init', 'me']);
    await machine.does('parley', ['install', 'gemini']);
    const told = (await findings(machine, 'parley')).filter(({ about }) => about === 'codex' || about === 'gemini');
    expect(told).toMatchObject([
      {
        level: 'warn',
        what: 'Codex: parley not installed',
        next: '`parley install codex`',
      },
      { level: 'ok', what: 'Gemini CLI: parley (hook and tools)' },
    ]);
  });

  it('do not count a hook of Codex that its user has not trusted', async () => {
    const machine = new InstallMachine();
    await machine.does('c2c', ['install', 'codex', '--hooks']);
    await register(machine, 'bob', 'codex');
    const told = async (what: string): Promise<Finding | undefined> =>
      (await findings(machine, 'c2c')).find(({ about }) => about === what);
    const untrusted = {
      level: 'warn',
      what: expect.stringContaining('c2c (untrusted hook and tools)'),
      next: expect.stringContaining('start Codex and trust the hooks'),
    };
    expect((await told('session bob'))?.what).toStartWith('codex: poll (baseline)');
    expect(await told('codex')).toMatchObject(untrusted);
    // Another hook of the same file says nothing about ours.
    trust(machine, ['post_tool_use:7:0']);
    expect(await told('codex')).toMatchObject(untrusted);
    trust(machine, ['post_tool_use:0:0']);
    expect(await told('codex')).toMatchObject(untrusted);
    trust(machine, ['user_prompt_submit:0:0', 'stop:0:0']);
    expect(await told('codex')).toMatchObject({ level: 'ok' });
    expect((await told('session bob'))?.what).toStartWith('codex: hook (fallback)');
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
