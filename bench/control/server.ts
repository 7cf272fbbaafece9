import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { Subprocess } from 'bun';
import { ClaudeTui } from '../../test/support/claude-tui.ts';

export type Answer = Record<string, unknown> & { ok: boolean };

/** The least that answers lines on a socket, as `node:net` does it for us, too. */
const BARE = `require('node:net').createServer({ allowHalfOpen: true }, (socket) => {
  let text = '';
  socket.on('data', (bytes) => {
    const lines = (text + bytes).split('\\n');
    text = lines.pop();
    for (const line of lines) socket.write(JSON.stringify({ ok: Boolean(JSON.parse(line)) }) + '\\n');
  });
}).listen(process.argv[1], () => console.log('listening'));`;

/** A server that answers lines, in a process of its own. */
export class LineServer {
  private constructor(
    readonly process: Subprocess,
    readonly socket: string,
  ) {}

  /** Returns when it says that it listens. */
  static async start(
    words: string[],
    socket: string,
    env: Record<string, string>,
    argv0?: string,
  ): Promise<LineServer> {
    const child = Bun.spawn(words, {
      ...(argv0 !== undefined && { argv0 }),
      env,
      cwd: env['HOME'] ?? '/',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const said = child.stdout.getReader();
    let text = '';
    while (!text.includes('listening')) {
      const { value, done } = await said.read();
      if (done) throw new Error(`${words.join(' ')} ended: ${text}`);
      text += Buffer.from(value).toString();
    }
    return new LineServer(child, socket);
  }

  static bare(folder: string): Promise<LineServer> {
    const socket = `${folder}/bare.sock`;
    return this.start([process.execPath, '-e', BARE, socket], socket, { HOME: folder });
  }

  caller(): Promise<LineCaller> {
    return LineCaller.open(this.socket);
  }

  /** One request on a connection of its own. */
  async ask(fields: Record<string, unknown>): Promise<Answer> {
    const caller = await this.caller();
    const answer = await caller.ask(fields);
    caller.close();
    return answer;
  }

  /** Processor time so far, in ms. */
  processorMs(): number {
    const fields = readFileSync(`/proc/${this.process.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    return (Number(fields[11]) + Number(fields[12])) * 10;
  }

  /** What it has in memory, in MB. */
  memory(): number {
    const [, kilobytes] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${this.process.pid}/status`, 'utf8')) ?? [];
    return Number(kilobytes) / 1024;
  }

  async stop(): Promise<void> {
    this.process.kill();
    await this.process.exited;
  }
}

/** Writes lines and reads lines. */
export class LineCaller {
  #text = '';
  readonly #lines: string[] = [];
  #heard: (line: string) => void = (line) => void this.#lines.push(line);
  #socket: Bun.Socket | null = null;

  static async open(path: string): Promise<LineCaller> {
    const caller = new LineCaller();
    caller.#socket = await Bun.connect({ unix: path, socket: { data: (_socket, bytes) => caller.#take(bytes) } });
    return caller;
  }

  /** The next line that comes. */
  async next(): Promise<Answer> {
    const { promise, resolve } = Promise.withResolvers<string>();
    const waiting = this.#lines.shift();
    if (waiting !== undefined) return JSON.parse(waiting) as Answer;
    this.#heard = (line) => {
      this.#heard = (later) => void this.#lines.push(later);
      resolve(line);
    };
    return JSON.parse(await promise) as Answer;
  }

  async ask(fields: Record<string, unknown>): Promise<Answer> {
    this.#socket?.write(`${JSON.stringify(fields)}\n`);
    return this.next();
  }

  close(): void {
    this.#socket?.end();
  }

  #take(bytes: Buffer): void {
    const lines = (this.#text + bytes.toString()).split('\n');
    this.#text = lines.pop() ?? '';
    for (const line of lines) this.#heard(line);
  }
}

/** A home with sessions of the stand-in for Claude Code, in a tmux server of its own. */
export class ControlHome {
  readonly claude: ClaudeTui;
  readonly names: string[];

  constructor(
    readonly home: string,
    readonly program: string,
    sessions: number,
  ) {
    this.claude = new ClaudeTui(home);
    this.names = Array.from({ length: sessions }, (_, n) => `s${n}`);
    for (const name of this.names) mkdirSync(this.folder(name), { recursive: true });
    const entries = this.names.map((name, n) => [name, { path: this.folder(name), topic_id: n + 1 }]);
    writeFileSync(`${home}/.ccc.json`, JSON.stringify({ sessions: Object.fromEntries(entries) }), { mode: 0o600 });
  }

  folder(name: string): string {
    return `${this.home}/work/${name}`;
  }

  listen(): Promise<LineServer> {
    return LineServer.start([this.program, 'listen'], `${this.home}/.ccc.sock`, this.claude.env, 'ccc');
  }
}
