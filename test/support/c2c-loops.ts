import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { PARLEY, Program } from './program.ts';
import type { Run } from './program.ts';
import { within } from './within.ts';

const DEADLINE_MS = 20_000;

interface Noted {
  started?: string[];
  pid?: number;
  env?: Record<string, string | null>;
  cwd?: string;
  sent?: string;
  at?: number;
}

export interface Staying {
  child: Bun.Subprocess;
  said: string;
}

/** A machine with a broker, a tmux server of its own, and a scripted client that can be started in it. */
export class LoopMachine {
  readonly socket = `c2c-test-${crypto.randomUUID().slice(0, 8)}`;
  readonly program = new Program();
  readonly home = this.program.home;
  readonly root = `${this.home}/repo/broker`;
  readonly data = `${this.home}/.local/share/c2c`;
  readonly client = `${this.home}/bin/client`;
  /** Processes that were started here and must not stay. */
  readonly #started: Bun.Subprocess[] = [];

  constructor() {
    Object.assign(this.program.extra, {
      C2C_MCP_BROKER_ROOT: this.root,
      C2C_TMUX_SOCKET: this.socket,
      TMUX_TMPDIR: this.home,
    });
    mkdirSync(`${this.home}/bin`);
    mkdirSync(`${this.home}/seen`);
    const child = `${import.meta.dir}/tui.child.ts`;
    // As OpenCode is asked for its sessions before it is started.
    const sessions = `[ "$1 $2" = 'session list' ] && echo '[{"id":"ses_1"}]' && exit`;
    writeFileSync(
      this.client,
      `#!/bin/sh\n${sessions}\nexec '${process.execPath}' '${child}' '${this.home}/seen' "$@"\n`,
    );
    chmodSync(this.client, 0o755);
  }

  async c2c(args: string[], env: Record<string, string> = {}): Promise<Run> {
    return new Program(this.home, { ...this.program.extra, ...env }).run(args, { name: 'c2c' });
  }

  async parley(args: string[]): Promise<Run> {
    return this.program.run(args);
  }

  /** What a command prints with --json. It must succeed. */
  async json<T>(args: string[], env: Record<string, string> = {}): Promise<T> {
    const { out, err, code } = await this.c2c([...args, '--json'], env);
    if (code !== 0) throw new Error(`c2c ${args.join(' ')} ended with ${code}: ${err}${out}`);
    return JSON.parse(out) as T;
  }

  async register(alias: string, session = `s-${alias}`): Promise<void> {
    await this.json(['register', alias, '--session-id', session]);
  }

  async send(to: string, text: string, from = 'alice'): Promise<void> {
    await this.json(['send', to, text, '--from', from], { C2C_MCP_SESSION_ID: `s-${from}` });
  }

  /** Leaves these entries in an inbox as a plain script does: beside it, then by rename. */
  plant(session: string, entries: object[]): void {
    writeFileSync(`${this.root}/${session}.inbox.json.tmp.1`, JSON.stringify(entries));
    renameSync(`${this.root}/${session}.inbox.json.tmp.1`, `${this.root}/${session}.inbox.json`);
  }

  /** A loop or daemon that stays until it is ended. `said` is what it wrote to stderr so far. */
  spawn(name: 'c2c' | 'parley' | 'c2c-deliver-inbox', args: string[], env: Record<string, string> = {}): Staying {
    const child = Bun.spawn([PARLEY, ...args], {
      argv0: name,
      cwd: this.home,
      env: { ...this.program.env, ...env },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    });
    this.#started.push(child);
    const staying: Staying = { child, said: '' };
    void listen(child.stderr, (text) => {
      staying.said += text;
    });
    return staying;
  }

  /** `c2c …` at a terminal, where somebody sits who can type. */
  atTerminal(args: string[]): { child: Bun.Subprocess; shown: () => string } {
    let shown = '';
    const child = Bun.spawn([PARLEY, ...args], {
      argv0: 'c2c',
      cwd: this.home,
      env: { ...this.program.env, TERM: 'xterm-256color' },
      terminal: {
        cols: 100,
        rows: 30,
        data: (_terminal, bytes) => {
          shown += new TextDecoder().decode(bytes);
        },
      },
    });
    this.#started.push(child);
    return { child, shown: () => shown };
  }

  /** What a client with this session noted. */
  noted(session: string): Noted[] {
    const path = `${this.home}/seen/${session}.jsonl`;
    if (!existsSync(path)) return [];
    const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
    return lines.map((line) => JSON.parse(line) as Noted);
  }

  sent(session: string): string[] {
    return this.noted(session).flatMap(({ sent }) => sent ?? []);
  }

  /** What every client here says of itself from now on; without a word, idle. */
  be(state?: 'busy' | 'dialog'): void {
    if (state === undefined) rmSync(`${this.home}/seen/state`, { force: true });
    else writeFileSync(`${this.home}/seen/state`, state);
  }

  sign(session: string): string {
    const path = `${this.data}/signs/${session}`;
    return existsSync(path) ? (readFileSync(path, 'utf8').split(' ')[0] ?? '') : '';
  }

  async until(isSo: () => boolean): Promise<void> {
    await within(DEADLINE_MS, async () => isSo());
  }

  /** A client in a pane of the tmux server here, outside of any management. Returns how its terminal is named. */
  async pane(session: string): Promise<string> {
    const env = { ...this.program.env, C2C_MCP_SESSION_ID: session };
    const words = ['-d', '-s', session, '-x', '120', '-y', '30', '-e', `C2C_MCP_SESSION_ID=${session}`];
    Bun.spawnSync(['tmux', '-u', '-L', this.socket, 'new-session', ...words, this.client, 'x'], { env });
    await this.until(() => this.sign(session) !== '');
    return `tmux@${this.socket}:${session}`;
  }

  async close(): Promise<void> {
    for (const child of this.#started) if (child.exitCode === null) child.kill('SIGTERM');
    await Promise.all(this.#started.map((child) => child.exited));
    for (const { pid } of this.#detached()) endIfThere(pid);
    Bun.spawnSync(['tmux', '-L', this.socket, 'kill-server'], { env: this.program.env, stderr: 'ignore' });
  }

  /** Loops that were left running in the background: each has a pid file of its own. */
  #detached(): { pid: number }[] {
    const folders = ['loops/run', 'wire-daemons']
      .map((name) => `${this.data}/${name}`)
      .filter((path) => existsSync(path));
    const files = folders.flatMap((cwd) => [...new Bun.Glob('*.pid').scanSync({ cwd, absolute: true })]);
    return files.map((path) => ({ pid: Number(readFileSync(path, 'utf8')) }));
  }
}

function endIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGTERM');
  } catch {
    // It ended before.
  }
}

async function listen(stream: ReadableStream<Uint8Array>, hear: (text: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  for await (const chunk of stream) hear(decoder.decode(chunk, { stream: true }));
}
