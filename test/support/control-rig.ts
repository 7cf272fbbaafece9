// A control server as a user runs it: the compiled program as `ccc listen`, real tmux, and the stand-in for Claude Code.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { Subprocess } from 'bun';
import { ClaudeTui } from './claude-tui.ts';
import { ControlCaller } from './control-caller.ts';
import type { Line } from './control-caller.ts';
import { PARLEY } from './program.ts';
import type { Run } from './program.ts';
import { within } from './within.ts';

/** A program that takes longer than this hangs, also on a busy machine. */
const HANGS_MS = 300_000;

export interface Said {
  id: number;
  ts: number;
  from: string;
  text: string;
  reply_to?: number;
  status?: string;
  error?: string;
  agent?: string;
  username?: string;
}

export class ControlRig {
  readonly claude = new ClaudeTui();
  readonly home = this.claude.env['HOME'] ?? '';
  readonly socket = `${this.home}/.ccc.sock`;
  readonly #callers: ControlCaller[] = [];
  server: Subprocess<'ignore', 'pipe', 'pipe'> | null = null;

  constructor(sessions: Record<string, object> = { api: {} }, settings: object = {}) {
    this.configure(sessions, settings);
  }

  /** Writes the file; a session without a path has a folder of its name in the home. */
  configure(sessions: Record<string, object>, settings: object = {}): void {
    const entries = Object.entries(sessions).map(([name, entry]) => [name, { path: this.folder(name), ...entry }]);
    for (const [, { path }] of entries as [string, { path: string }][])
      if (path.startsWith(this.home)) mkdirSync(path, { recursive: true });
    writeFileSync(`${this.home}/.ccc.json`, JSON.stringify({ sessions: Object.fromEntries(entries), ...settings }), {
      mode: 0o600,
    });
  }

  folder(name: string): string {
    return `${this.home}/work/${name.replaceAll(/[^A-Za-z0-9.-]/g, '_')}`;
  }

  /** Starts a server and waits until it says that it listens. */
  async listen(env: Record<string, string> = {}): Promise<this> {
    const server = Bun.spawn([PARLEY, 'listen'], {
      argv0: 'ccc',
      cwd: this.home,
      env: { ...this.claude.env, ...env },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    });
    this.server = server;
    const reader = server.stdout.getReader();
    const limit = setTimeout(() => server.kill('SIGKILL'), HANGS_MS);
    let said = '';
    while (!said.includes('listening')) {
      const { value, done } = await reader.read();
      if (done) throw new Error(`ccc listen ended: ${said}${await new Response(server.stderr).text()}`);
      said += Buffer.from(value).toString();
    }
    clearTimeout(limit);
    reader.releaseLock();
    return this;
  }

  /** Ends the server and waits for it. */
  async end(signal: NodeJS.Signals = 'SIGTERM'): Promise<number> {
    this.server?.kill(signal);
    const code = (await this.server?.exited) ?? 0;
    this.server = null;
    return code;
  }

  async caller(): Promise<ControlCaller> {
    const caller = await ControlCaller.open(this.socket);
    this.#callers.push(caller);
    return caller;
  }

  /** One request on a connection of its own. */
  async request(fields: Record<string, unknown> | string): Promise<Line> {
    const caller = await this.caller();
    const line = await caller.ask(fields);
    caller.close();
    return line;
  }

  async ask(session: string, text: string, fields: object = {}): Promise<Line> {
    return this.request({ cmd: 'ask', session, text, ...fields });
  }

  async send(session: string, text: string, fields: object = {}): Promise<Line> {
    return this.request({ cmd: 'send', session, text, ...fields });
  }

  async history(session: string, fields: object = {}): Promise<Said[]> {
    const answer = await this.request({ cmd: 'history', session, ...fields });
    if (!answer.ok) throw new Error(answer.error);
    return answer['messages'] as Said[];
  }

  async status(session: string): Promise<string> {
    const { sessions } = await this.request({ cmd: 'sessions' });
    return (sessions as { name: string; status: string }[]).find(({ name }) => name === session)?.status ?? 'unknown';
  }

  async until(session: string, status: string): Promise<void> {
    await within(20_000, async () => (await this.status(session)) === status);
  }

  /** Every line of the history files, in the order of the files. */
  files(): Said[] {
    const root = `${this.home}/.ccc/history`;
    if (!existsSync(root)) return [];
    const names = [...new Bun.Glob('*/messages/*.jsonl').scanSync(root)].sort();
    const lines = names.flatMap((name) => readFileSync(`${root}/${name}`, 'utf8').trimEnd().split('\n'));
    return lines.filter(Boolean).map((line) => JSON.parse(line) as Said);
  }

  /** The program under one of its names. */
  async run(name: 'ccc' | 'parley', args: string[], options: { cwd?: string; stdin?: string } = {}): Promise<Run> {
    return this.program([PARLEY, ...args], { argv0: name, ...options });
  }

  /** Any program in this home. */
  async program(
    words: string[],
    options: { argv0?: string; cwd?: string; stdin?: string; env?: object } = {},
  ): Promise<Run> {
    const { argv0, cwd = this.home, stdin = '', env } = options;
    const child = Bun.spawn(words, {
      ...(argv0 !== undefined && { argv0 }),
      cwd,
      env: { ...this.claude.env, ...env },
      stdin: new Blob([stdin]),
      stdout: 'pipe',
      stderr: 'pipe',
      timeout: HANGS_MS,
    });
    const [out, err, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    return { out, err, code };
  }

  async close(): Promise<void> {
    for (const caller of this.#callers) caller.close();
    await this.end();
    await this.claude.close();
  }
}
