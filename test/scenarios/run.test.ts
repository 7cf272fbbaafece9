// `parley run` with stand-ins for the clients: programs of that name which say what they were started with.
import { describe, expect, it } from 'bun:test';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import type { AgentName } from '../../src/core/names.ts';
import { SessionNames } from '../../src/delivery/session-names.ts';
import { temporaryHome } from '../support/home.ts';
import { PARLEY, Program } from '../support/program.ts';
import type { Run } from '../support/program.ts';
import { within } from '../support/within.ts';

/** Says who it is, stays while somebody holds its stdin if it is told to, and ends with 7. */
const STAND_IN = `#!/bin/sh
printf '%s\\0' "$@" >"$HOME/args"
printf '%s\\n' "pid $$" "as $PARLEY_AGENT" "tty $(tty)" "files $(ulimit -n)" "$(grep SigIgn /proc/self/status)" "$OPENCODE_CONFIG_CONTENT" >"$HOME/said.$$"
mv "$HOME/said.$$" "$HOME/said"
if [ -n "$STAYS" ]; then read -r line; fi
exit 7
`;

describe('parley run', () => {
  it('makes room for the client: it has our pid, our arguments byte for byte, and its own exit code', async () => {
    const machine = aMachine('claude');
    const odd = Buffer.from('x\xffy', 'latin1');
    const script = `ulimit -Sn 300; printf 'shell %s\\n' $$; "$0" run claude --model 'a  b' "$(printf 'x\\377y')" '' -- --as z; echo "code $?"`;
    const { out } = await machine.sh(script);
    expect(out).toBe(`shell ${machine.shell(out)}\ncode 7\n`);
    expect(machine.args().slice(2)).toEqual([
      ...['--model', 'a  b'].map((one) => Buffer.from(one)),
      odd,
      ...['', '--', '--as', 'z'].map((one) => Buffer.from(one)),
    ]);
    expect(machine.said()).toMatchObject({ as: 'claude.api', files: '300', 'SigIgn:': '0000000000000000' });
    const { out: replaced } = await machine.sh('printf \'shell %s\\n\' $$; exec "$0" run claude');
    expect(machine.said()['pid']).toBe(machine.shell(replaced));
  });

  it('leaves the terminal to the client', async () => {
    const machine = aMachine('claude');
    const { shown, code } = await machine.parley.atTerminal(['run', 'claude'], '', {
      cwd: machine.folder,
      env: machine.env,
    });
    expect(code).toBe(7);
    expect(machine.said()['tty']).toMatch(/^\/dev\/pts\/\d+$/);
    expect(shown).toContain('parley: you are @claude.api; mail comes with your next prompt, and while it works');
  });

  it.each([
    ['kimi', 'Kimi'],
    ['gemini', 'Gemini CLI'],
  ])(
    'holds the terminal of %s, which starts as it would without us, and leaves nothing of that',
    async (client, title) => {
      const machine = aMachine('claude', client);
      const at = { cwd: machine.folder, env: machine.env };
      await machine.parley.atTerminal(['run', 'claude'], '', at);
      const { files, 'SigIgn:': ignored } = machine.said();
      const { shown, code } = await machine.parley.atTerminal(['run', client, '--', '-x', 'a  b'], '', at);
      expect(code).toBe(7);
      // Gemini CLI also gets the id of its session.
      expect(machine.words().slice(-2)).toEqual(['-x', 'a  b']);
      expect(machine.said()).toMatchObject({
        as: `${client}.api`,
        tty: expect.stringMatching(/^\/dev\/pts\/\d+$/),
        files,
        'SigIgn:': ignored,
      });
      expect(machine.said()['pid']).not.toBe(String(new SessionNames(`${machine.home}/.parley`).all()[1]?.pid));
      expect(shown).toContain(`parley: you are @${client}.api; mail waits until its model asks for it`);
      expect(shown).toContain(
        `${title} takes hooks and tools only from its settings; \`parley install ${client}\` adds them`,
      );
      expect(readdirSync(`${machine.home}/.parley/terminals`)).toEqual([]);
    },
  );

  it.each(['kimi', 'gemini'])('becomes %s where there is no terminal to hold, or no session in it', async (client) => {
    const machine = aMachine(client);
    const { out } = await machine.sh(`printf 'shell %s\\n' $$; exec "$0" run ${client}`);
    expect(machine.said()).toMatchObject({ pid: machine.shell(out), as: `${client}.api` });
    const at = { cwd: machine.folder, env: machine.env };
    expect(await machine.parley.atTerminal(['run', client, '-p', 'go'], '', at)).toMatchObject({ code: 7 });
    await machine.run(client, '--version');
    expect(machine.said()['as']).toBe('');
    expect(existsSync(`${machine.home}/.parley/terminals`)).toBe(false);
  });

  it('adds the hook and the tools on the command line, and writes only into its own home', async () => {
    const machine = aMachine('claude');
    expect(await machine.run('claude')).toMatchObject({ code: 7, out: '' });
    const [servers = '', hooks = '', ...rest] = machine.words();
    expect(rest).toEqual([]);
    expect(JSON.parse(servers.replace('--mcp-config=', ''))).toEqual({
      mcpServers: {
        parley: { type: 'stdio', command: PARLEY, args: ['mcp', '--client', 'claude', '--as', 'claude.api'], env: {} },
      },
    });
    const settings = JSON.parse(hooks.replace('--settings=', '')) as { hooks: Record<string, unknown> };
    expect(Object.keys(settings.hooks)).toContain('UserPromptSubmit');
    expect(hooks).toContain('.parley/hook claude');
    expect(readdirSync(machine.home).sort()).toEqual(['.parley', 'api', 'args', 'bin', 'said']);
  });

  it("leaves its hook out where the user's own --settings would hide it, and says so", async () => {
    const machine = aMachine('claude');
    const { err } = await machine.run('claude', '--settings', '{}', 'go');
    expect(machine.words().slice(1)).toEqual(['--settings', '{}', 'go']);
    expect(err).toContain('parley: Claude Code uses one --settings only, so yours is used');
    expect(err).toContain('mail waits until its model asks for it');
  });

  it('gives a name again after its session has ended, and a number while it runs', async () => {
    const machine = aMachine('claude');
    const first = machine.stays('claude');
    await within(20_000, async () => existsSync(`${machine.home}/said`));
    expect((await machine.run('claude')).err).toContain('you are @claude.api.2;');
    expect((await machine.run('claude', '--as', 'claude.api')).err).toBe(
      `parley: @claude.api is a running session (claude in ${machine.folder}, pid ${first.pid}); leave out --as, or choose another name\n`,
    );
    await first.ends();
    expect((await machine.run('claude')).err).toContain('you are @claude.api;');
    expect(await machine.parley.json<{ name: string }[]>(['agents'])).toHaveLength(2);
  });

  it('gives the name that was asked for, with or without its mailbox, but not that of a person', async () => {
    const machine = aMachine('claude');
    await machine.parley.init('reviewer');
    await machine.parley.run(['init', 'ada', '--human']);
    expect((await machine.run('claude', '--as', 'reviewer')).err).toContain('you are @reviewer;');
    expect((await machine.run('claude', '--as=@fresh')).err).toContain('you are @fresh;');
    expect(machine.said()['as']).toBe('fresh');
    expect((await machine.run('claude', '--as', 'ada')).err).toBe(
      'parley: @ada is the mailbox of a person; choose another name for the session\n',
    );
  });

  it('does not take a name that is the mailbox of somebody else', async () => {
    const machine = aMachine('claude');
    await machine.parley.init('claude.api');
    expect((await machine.run('claude')).err).toContain('you are @claude.api.2;');
  });

  it('gives a session that is continued the name that it had', async () => {
    const machine = aMachine('claude');
    const id = '0a0b0c0d-0000-4000-8000-000000000001';
    await machine.run('claude', '--as', 'reviewer');
    new SessionNames(`${machine.home}/.parley`).bind('reviewer' as AgentName, id);
    expect((await machine.run('claude')).err).toContain('you are @claude.api;');
    expect((await machine.run('claude', '--resume', id)).err).toContain('you are @reviewer;');
    expect((await machine.run('claude', '--resume', id, '--as', 'x')).err).toContain('you are @reviewer;');
    expect(machine.words().slice(-4)).toEqual(['--resume', id, '--as', 'x']);
  });

  it('tells a shell of Codex who it is by its thread: all its sessions have one environment', async () => {
    const machine = aMachine('codex');
    await machine.parley.init('me');
    await machine.run('codex', 'go');
    new SessionNames(`${machine.home}/.parley`).bind('codex.api' as AgentName, 't-1');
    const whoIs = async (thread: string): Promise<string> => {
      const { out } = await machine.parley.withoutTerminal(['whoami'], { env: { CODEX_THREAD_ID: thread } });
      return out;
    };
    expect(await whoIs('t-1')).toContain('@codex.api in');
    expect(await whoIs('t-1')).toContain('(from CODEX_THREAD_ID)');
    expect(await whoIs('t-2')).toContain('@me in');
  });

  it('passes on what begins no session, without a name', async () => {
    const machine = aMachine('claude', 'codex');
    for (const words of [
      ['claude', 'mcp', 'list'],
      ['claude', '--version'],
      ['codex', 'login'],
    ]) {
      expect(await machine.run({}, ...words)).toEqual({ out: '', err: '', code: 7 });
      expect(machine.words()).toEqual(words.slice(1));
    }
    expect(existsSync(`${machine.home}/.parley/names`)).toBe(false);
  });

  it('gives Codex its tools by -c where it runs without its daemon', async () => {
    const machine = aMachine('codex');
    await machine.run('codex', 'exec', 'go');
    const args = JSON.stringify(['mcp', '--client', 'codex', '--as', 'codex.api']);
    expect(machine.words()).toEqual([
      '-c',
      `mcp_servers.parley.command="${PARLEY}"`,
      '-c',
      `mcp_servers.parley.args=${args}`,
      'exec',
      'go',
    ]);
    expect(machine.said()['as']).toBe('codex.api');
  });

  it('starts Codex as it is where its daemon does not start, and says what is missing', async () => {
    const machine = aMachine('codex');
    const { err } = await machine.run('codex', 'go');
    expect(machine.words()).toEqual(['go']);
    expect(err).toContain('you are @codex.api; mail comes with your next prompt, after `parley install codex`');
    expect(err).toContain('Codex did not start its daemon');
    expect(err).toContain('its model has the tools of Parley only after `parley install codex`');
    expect(machine.said()['as']).toBe('');
  });

  it("joins its server with the user's own settings in OpenCode's variable", async () => {
    const machine = aMachine('opencode');
    const given = JSON.stringify({ theme: 'x', mcp: { other: {} } });
    await machine.run({ OPENCODE_CONFIG_CONTENT: given }, 'opencode');
    const settings = readFileSync(`${machine.home}/said`, 'utf8').trim().split('\n').at(-1) ?? '';
    expect(JSON.parse(settings)).toMatchObject({
      theme: 'x',
      mcp: { other: {}, parley: { command: [PARLEY, 'mcp', '--client', 'opencode', '--as', 'opencode.api'] } },
    });
  });

  it('is listed by `parley agents` with its client, folder, state and waiting mail', async () => {
    const machine = aMachine('claude');
    await machine.parley.init('me');
    const session = machine.stays('claude');
    await within(20_000, async () => existsSync(`${machine.home}/said`));
    await machine.parley.run(['send', '@claude.api', 'hello']);
    expect((await machine.parley.run(['agents'])).out).toContain(
      '@claude.api  claude in ~/api, running; mail waits for the daemon: `parley up --detach`  1 waiting',
    );
    await session.ends();
    const [row] = (await machine.parley.json<{ name: string }[]>(['agents'])).filter(
      ({ name }) => name === 'claude.api',
    );
    expect(row).toMatchObject({
      waiting: 1,
      nobodyReads: false,
      sessions: [
        { client: 'claude', folder: machine.folder, state: 'not running', way: null, session: null, pid: null },
      ],
    });
  });

  it('shows in its help what a user may give, and nothing that only Parley gives', async () => {
    const { parley } = aMachine();
    for (const words of [
      ['help', 'run'],
      ['help', 'run', '--json'],
      ['completion', 'bash'],
    ]) {
      const { out } = await parley.run(words);
      expect(out).toContain('as');
      expect(out).not.toContain('hold-thread');
    }
  });

  it('refuses what it cannot start, in one line that says what to do', async () => {
    const machine = aMachine('claude');
    expect((await machine.run('claud')).err).toBe('parley: no client is called "claud"; did you mean claude?\n');
    expect((await machine.run('codex')).err).toBe(
      'parley: Codex is not installed: no program called codex is in your PATH. Install it, and try again\n',
    );
    expect((await machine.run('claude', '--as', 'no name')).err).toContain('parley: ');
    expect(existsSync(`${machine.home}/said`)).toBe(false);
  });
});

/** A home with stand-ins on its search path, and a folder `api` to work in. No daemon of Parley starts. */
function aMachine(...clients: string[]) {
  const home = realpathSync(temporaryHome());
  const folder = `${home}/api`;
  mkdirSync(`${home}/bin`);
  mkdirSync(folder);
  for (const client of clients) {
    writeFileSync(`${home}/bin/${client}`, STAND_IN);
    chmodSync(`${home}/bin/${client}`, 0o755);
  }
  const env = { PARLEY_NO_DAEMON: '1', PATH: `${home}/bin:/usr/bin:/bin` };
  const parley = new Program(home, env);
  const args = (): Buffer[] => {
    const bytes = readFileSync(`${home}/args`, 'latin1').split('\0').slice(0, -1);
    return bytes.map((word) => Buffer.from(word, 'latin1'));
  };
  const spawn = (command: string[], more: Record<string, string>, stdin: 'pipe' | 'ignore') =>
    Bun.spawn(command, { cwd: folder, env: { ...parley.env, ...more }, stdin, stdout: 'pipe', stderr: 'pipe' });
  const ended = async (command: string[], more: Record<string, string> = {}): Promise<Run> => {
    const child = spawn(command, more, 'ignore');
    const [out, err, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    return { out, err, code };
  };
  return {
    home,
    folder,
    env,
    parley,
    args,
    words: (): string[] => args().map(String),
    /** What the stand-in said of itself, by the first word of each line. */
    said: (): Record<string, string> =>
      Object.fromEntries(
        readFileSync(`${home}/said`, 'utf8')
          .split('\n')
          .map((line) => [line.split(/\s/)[0] ?? '', line.replace(/^\S+\s/, '')]),
      ),
    run: (first: string | Record<string, string>, ...words: string[]): Promise<Run> =>
      typeof first === 'string' ? ended([PARLEY, 'run', first, ...words]) : ended([PARLEY, 'run', ...words], first),
    sh: (script: string): Promise<Run> => ended(['/bin/sh', '-c', script, PARLEY]),
    shell: (out: string): string => /^shell (\d+)$/m.exec(out)?.[1] ?? '',
    /** A session that runs until it is ended. */
    stays(client: string) {
      const child = spawn([PARLEY, 'run', client], { STAYS: '1' }, 'pipe');
      return {
        pid: child.pid,
        async ends(): Promise<void> {
          if (typeof child.stdin === 'object') await child.stdin.end();
          await child.exited;
        },
      };
    },
  };
}
