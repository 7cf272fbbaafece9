// What the established OpenCode plugin asks of `c2c`, call by call, and what it does with each answer.
import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../support/home.ts';
import { PARLEY, personAt } from '../support/program.ts';
import { within } from '../support/within.ts';

/** The plugin ends a call that takes longer; a busy machine gets more. */
const PATIENCE_MS = 30_000;

type Row = Record<string, unknown>;

/** Somebody with a session, who calls `c2c` as the plugin does: no shell, the project as folder, exit 0 or it failed. */
class Caller {
  constructor(
    readonly home: string,
    readonly session: string,
  ) {}

  get env(): Record<string, string> {
    const { PATH = '' } = process.env;
    const broker = `${this.home}/broker`;
    return {
      PATH,
      HOME: this.home,
      BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0',
      C2C_MCP_SESSION_ID: this.session,
      C2C_SESSION_ID: this.session,
      C2C_MCP_BROKER_ROOT: broker,
      C2C_BROKER_ROOT: broker,
      C2C_MCP_CLIENT_TYPE: 'opencode',
      C2C_MCP_CLIENT_PID: String(process.pid),
    };
  }

  start(args: string[], stdin: 'ignore' | 'pipe' = 'ignore') {
    const cwd = `${this.home}/project`;
    const command = [PARLEY, ...args];
    return Bun.spawn(command, { argv0: 'c2c', cwd, env: this.env, stdin, stdout: 'pipe', stderr: 'pipe' });
  }

  /** What it printed; any exit code but 0 is a failure. */
  async calls(...args: string[]): Promise<string> {
    const child = this.start(args);
    const timer = setTimeout(() => child.kill(), PATIENCE_MS);
    const [out, err, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    clearTimeout(timer);
    if (code !== 0) throw new Error(`c2c ${args.join(' ')} exited ${code}: ${err}`);
    return out;
  }

  /** The same from a terminal of the user, where no session is named. */
  async userCalls(...args: string[]): Promise<void> {
    const { C2C_MCP_SESSION_ID: _one, C2C_SESSION_ID: _other, ...env } = this.env;
    const command = [PARLEY, 'c2c', ...args];
    const { shown, code } = await personAt({ command, cwd: `${this.home}/project`, env, typed: '' });
    if (code !== 0) throw new Error(`c2c ${args.join(' ')} exited ${code}: ${shown}`);
  }

  async json<T>(...args: string[]): Promise<T> {
    return JSON.parse(await this.calls(...args)) as T;
  }
}

let home: string;
let plugin: Caller;
let river: Caller;
const monitors: Bun.Subprocess[] = [];

beforeEach(async () => {
  home = temporaryHome();
  mkdirSync(`${home}/project/.opencode`, { recursive: true });
  plugin = new Caller(home, 'opencode-project');
  river = new Caller(home, 'river-session');
  await plugin.calls('register', '--alias', 'ocean', '--json');
  await river.calls('register', '--alias', 'river', '--json');
});
afterEach(async () => {
  for (let one = monitors.pop(); one; one = monitors.pop()) {
    one.kill();
    await one.exited;
  }
});

const spool = (): string => `${home}/project/.opencode/c2c-plugin-spool.json`;
const drain = () =>
  plugin.json<{ ok: boolean; session_id: string; spool_path: string; count: number; messages: Row[] }>(
    'oc-plugin',
    'drain-inbox-to-spool',
    '--spool-path',
    spool(),
    '--json',
  );

describe('the calls of the established OpenCode plugin', () => {
  it('drain: spool and inbox together, whole, in order, and the inbox is empty then [C2C-60]', async () => {
    await river.calls('send', 'ocean', 'first');
    await river.calls('send', 'ocean', 'second, with\na new line and "quotes"');
    const drained = await drain();
    expect(drained).toMatchObject({ ok: true, session_id: 'opencode-project', spool_path: spool(), count: 2 });
    expect(drained.messages).toMatchObject([
      { from_alias: 'river', to_alias: 'ocean', content: 'first' },
      { from_alias: 'river', to_alias: 'ocean', content: 'second, with\na new line and "quotes"' },
    ]);
    expect(JSON.parse(readFileSync(spool(), 'utf8'))).toEqual(drained.messages);
    // Not yet handed out: it comes again, with what came since.
    for (let again = 0; again < 3; again += 1) expect(await drain()).toEqual(drained);
    await river.calls('send', 'ocean', 'third');
    const again = await drain();
    expect(again.messages.map(({ content }) => content)).toEqual(['first', drained.messages[1]?.['content'], 'third']);
    // The plugin removes the file when all is handed out.
    rmSync(spool());
    expect(await drain()).toMatchObject({ ok: true, count: 0, messages: [] });
    expect(existsSync(spool())).toBe(false);
    const archived = readFileSync(`${home}/broker/archive/opencode-project.jsonl`, 'utf8').trimEnd().split('\n');
    expect(archived.map((line) => (JSON.parse(line) as Row)['drained_by'])).toEqual(
      Array.from({ length: 3 }, () => 'oc_plugin'),
    );
  });

  it('drain: keeps what the plugin itself wrote into the spool, with nothing but sender, recipient and text [C2C-60]', async () => {
    writeFileSync(spool(), JSON.stringify([{ from_alias: 'river', to_alias: 'ocean', content: 'failed before' }]));
    await river.calls('send', 'ocean', 'new');
    expect((await drain()).messages.map(({ content }) => content)).toEqual(['failed before', 'new']);
  });

  it('poll-inbox --json and peek-inbox --json: an array [C2C-60]', async () => {
    await river.calls('send', 'ocean', 'permission:per_1:approve-once');
    const peeked = await plugin.json<Row[]>('peek-inbox', '--json');
    expect(peeked).toMatchObject([
      { from_alias: 'river', to_alias: 'ocean', content: 'permission:per_1:approve-once' },
    ]);
    expect(await plugin.json<Row[]>('peek-inbox', '--json')).toEqual(peeked);
    expect(await plugin.json<Row[]>('poll-inbox', '--json')).toMatchObject([
      { content: 'permission:per_1:approve-once' },
    ]);
    expect(await plugin.json<Row[]>('poll-inbox', '--json')).toEqual([]);
  });

  it('monitor --alias: silent at first, then one line with 📬 for each message, and no process is left [C2C-60]', async () => {
    await river.calls('send', 'ocean', 'was there before');
    const monitor = plugin.start(['monitor', '--alias', 'opencode-project']);
    monitors.push(monitor);
    let said = '';
    const reading = (async () => {
      const decoder = new TextDecoder();
      for await (const bytes of monitor.stdout) said += decoder.decode(bytes, { stream: true });
    })();
    // It does not say when it listens: the first line does. Each message sent from then on has its line.
    await within(PATIENCE_MS, async () => {
      await river.calls('send', 'ocean', 'are you there');
      return said !== '';
    });
    await river.calls('send', 'ocean', 'the last of these');
    await within(PATIENCE_MS, async () => said.includes('the last of these'));
    const before = said.split('\n').length;
    await river.calls('send', 'ocean', 'same words');
    await river.calls('send', 'ocean', 'same words');
    await within(PATIENCE_MS, async () => said.split('same words').length === 3);
    expect(said.split('\n')).toHaveLength(before + 2);
    expect(said).not.toContain('was there before');
    expect(
      said
        .trimEnd()
        .split('\n')
        .every((line) => line.includes('📬') && line.includes('river')),
    ).toBe(true);
    const group = childrenOf(monitor.pid);
    monitor.kill();
    await monitor.exited;
    await reading;
    expect(group).toEqual([]);
  });

  it('list --json: rows with alias, session, life and the time last seen in seconds [C2C-60]', async () => {
    const rows = await plugin.json<Row[]>('list', '--json');
    const row = rows.find(({ alias }) => alias === 'ocean');
    expect(row).toMatchObject({ alias: 'ocean', session_id: 'opencode-project', alive: true });
    expect(Math.abs(Number(row?.['last_seen']) - Date.now() / 1000)).toBeLessThan(300);
  });

  it('register --json without an alias, then clear-compact, after OpenCode shortened its context [C2C-60]', async () => {
    await plugin.calls('set-compact');
    expect(await plugin.json<Row>('register', '--json')).toMatchObject({
      alias: 'ocean',
      session_id: 'opencode-project',
    });
    await plugin.calls('clear-compact');
    const row = (await plugin.json<Row[]>('list', '--json')).find(({ alias }) => alias === 'ocean');
    expect(row).not.toHaveProperty('compacting');
  });

  it('open-pending-reply and check-pending-reply: yes only for whom the user has named, and never a failure [C2C-60]', async () => {
    const check = (id: string, from: string) => plugin.json<Row>('check-pending-reply', id, from, '--json');
    await plugin.calls('open-pending-reply', 'per_1', '--kind', 'permission', '--supervisors', 'river,coordinator1');
    expect(await check('per_1', 'river')).toMatchObject({ valid: false, requester_session_id: 'opencode-project' });
    expect((await check('per_1', 'river'))['error']).toBeString();
    await expect(plugin.calls('repo', 'set', 'supervisors', 'river')).rejects.toThrow(
      'Only the user can name supervisors',
    );
    await plugin.userCalls('repo', 'set', 'supervisors', 'river');
    expect(await check('per_1', 'river')).toEqual({
      valid: true,
      requester_session_id: 'opencode-project',
      error: null,
    });
    expect(await check('per_1', 'coordinator1')).toMatchObject({ valid: false });
    expect(await check('per_1', 'stranger')).toMatchObject({ valid: false });
    expect(await check('per_9', 'river')).toMatchObject({ valid: false, requester_session_id: null });
  });

  it('oc-plugin stream-write-statefile: takes the states as that plugin sends them, with fields of its own [C2C-60]', async () => {
    const writer = plugin.start(['oc-plugin', 'stream-write-statefile'], 'pipe');
    const state = {
      c2c_session_id: 'opencode-project',
      opencode_pid: process.pid,
      agent: { turn_count: 0, active_fraction_1h: 0 },
    };
    const lines = [
      { event: 'state.snapshot', ts: '2026-04-21T14:05:00.123Z', state },
      {
        event: 'state.patch',
        ts: '2026-04-21T14:05:01.123Z',
        patch: { agent: { turn_count: 1 }, context_usage: { tokens_input: 5 } },
      },
    ];
    const stdin = writer.stdin as Bun.FileSink;
    void stdin.write(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    await stdin.end();
    expect(await writer.exited).toBe(0);
    const file = JSON.parse(readFileSync(`${home}/.local/share/c2c/oc-plugin-state.json`, 'utf8')) as Row;
    expect(file).toMatchObject({
      event: 'state.snapshot',
      ts: '2026-04-21T14:05:01.123Z',
      state: { agent: { turn_count: 1, active_fraction_1h: 0 }, context_usage: { tokens_input: 5 } },
    });
  });

  it('send: the text is one argument, whatever is in it [C2C-60]', async () => {
    const text = '-- not an option\n$(touch /nowhere)\n`x` "y" \'z\' \\ 😀';
    await plugin.calls('send', 'river', text);
    expect(await river.json<Row[]>('poll-inbox', '--json')).toMatchObject([{ from_alias: 'ocean', content: text }]);
  });
});

function childrenOf(pid: number): string[] {
  const path = `/proc/${pid}/task/${pid}/children`;
  return existsSync(path) ? readFileSync(path, 'utf8').split(' ').filter(Boolean) : [];
}
