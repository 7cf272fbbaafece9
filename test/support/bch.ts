import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { temporaryHome } from './home.ts';
import { PARLEY, Program } from './program.ts';
import type { Run } from './program.ts';

// The first home removes the folders of earlier runs, which can take long: do it outside of a test's time limit.
temporaryHome();

export interface Options {
  as?: string;
  env?: Record<string, string>;
}

/** A machine with a Backchannel home. A plain script is played by file operations alone. */
export class Machine {
  readonly program = new Program();
  readonly root = `${this.program.home}/.backchannel`;

  env({ as, env }: Options = {}): Record<string, string> {
    return { ...this.program.env, ...(as && { BACKCHANNEL_AGENT: as }), ...env };
  }

  /** `bch …` with these words. */
  async bch(args: string[], options: Options = {}): Promise<Run> {
    const running = this.start('bch', args, options);
    await running.ended();
    return running.run();
  }

  /** What `bch …` prints. It must succeed and have nothing to complain about. */
  async said(args: string[], options: Options = {}): Promise<string> {
    const { out, err, code } = await this.bch(args, options);
    if (code !== 0 || err !== '') throw new Error(`bch ${args.join(' ')} ended with ${code}: ${err}`);
    return out;
  }

  /** The error text of `bch …`, without its newline. The command must fail with the exit code of `bch`. */
  async error(args: string[], options: Options = {}): Promise<string> {
    const { out, err, code } = await this.bch(args, options);
    if (code !== 1 || out !== '' || !/^error: [^\n]*\n$/.test(err)) {
      throw new Error(`bch ${args.join(' ')} ended with ${code}: ${JSON.stringify({ out, err })}`);
    }
    return err.slice('error: '.length, -1);
  }

  start(name: 'bch' | 'parley', args: string[], options: Options = {}): Running {
    return new Running(name, args, this.env(options), this.program.home);
  }

  /** A program whose reader never reads the pipe: its output blocks until `leave`. */
  stuck(name: 'bch' | 'parley', args: string[], options: Options = {}): { child: Bun.Subprocess; leave(): void } {
    const pipe = `${this.program.home}/pipe`;
    Bun.spawnSync(['mkfifo', pipe]);
    const reader = openSync(pipe, 'r+');
    const writer = openSync(pipe, 'w');
    const child = Bun.spawn([PARLEY, ...args], {
      argv0: name,
      cwd: this.program.home,
      env: this.env(options),
      stdin: 'ignore',
      stdout: writer,
      stderr: 'ignore',
    });
    closeSync(writer);
    return { child, leave: () => closeSync(reader) };
  }

  /** A record as the original writes it. */
  agent(name: string, fields: Record<string, unknown> = {}): this {
    const then = '2026-01-02T03:04:05.678Z';
    const record = { name, subscriptions: [], createdAt: then, lastSeen: then, ...fields };
    mkdirSync(`${this.root}/agents`, { recursive: true });
    writeFileSync(`${this.root}/agents/${name}.json`, JSON.stringify(record, null, 2));
    return this;
  }

  record(name: string): Record<string, unknown> {
    return JSON.parse(readFileSync(`${this.root}/agents/${name}.json`, 'utf8')) as Record<string, unknown>;
  }

  /** Leaves a message as the original does: into tmp/, then by rename into new/. Returns its id. */
  leave(mailbox: string, fields: Record<string, unknown> = {}): string {
    const id = crypto.randomUUID();
    const message = {
      id,
      from: 'script',
      to: `@${mailbox}`,
      body: 'hello',
      priority: 'normal',
      ts: aTime(),
      ...fields,
    };
    const box = `${this.root}/spool/${mailbox}`;
    for (const folder of ['tmp', 'new']) mkdirSync(`${box}/${folder}`, { recursive: true });
    writeFileSync(`${box}/tmp/${message.id}.json`, JSON.stringify(message));
    renameSync(`${box}/tmp/${message.id}.json`, `${box}/new/${message.id}.json`);
    return message.id;
  }

  /** The names of the message files in a folder of a mailbox. */
  files(mailbox: string, folder: string): string[] {
    try {
      return readdirSync(`${this.root}/spool/${mailbox}/${folder}`).sort();
    } catch {
      return [];
    }
  }

  /** Waits until a reader has one message in its hand, and the others have been left alone for a while. */
  async takesNoMore(mailbox: string): Promise<void> {
    let seen = '';
    let since = Date.now();
    await until('a reader that is stuck', () => {
      const now = [this.files(mailbox, 'held'), this.files(mailbox, 'new')].join();
      if (now !== seen) since = Date.now();
      seen = now;
      return this.files(mailbox, 'held').length === 1 && Date.now() - since > 300;
    });
  }

  /** The one message file that waits for an agent, as it is on disk. */
  onlyFile(mailbox: string): string {
    const [name, ...others] = this.files(mailbox, 'new');
    if (!name || others.length > 0) throw new Error(`${mailbox} has ${others.length + (name ? 1 : 0)} messages`);
    return readFileSync(`${this.root}/spool/${mailbox}/new/${name}`, 'utf8');
  }
}

/** A program at work. What it says is collected as it comes. */
export class Running {
  readonly child;
  out = '';
  err = '';
  readonly #read: Promise<unknown>;

  /** Ours from its source, unless another program is named. */
  constructor(name: string, args: string[], env: Record<string, string>, cwd: string, program = [PARLEY]) {
    this.child = Bun.spawn([...program, ...args], {
      argv0: name,
      cwd,
      env,
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    });
    this.#read = Promise.all([
      collect(this.child.stdout, (text) => (this.out += text)),
      collect(this.child.stderr, (text) => (this.err += text)),
    ]);
  }

  /** Waits until it has said this on stdout. */
  async says(text: string, times = 1): Promise<void> {
    await until(`${text} in ${JSON.stringify(this.out + this.err)}`, () => this.out.split(text).length > times);
  }

  async complains(text: string): Promise<void> {
    await until(`${text} in ${JSON.stringify(this.err)}`, () => this.err.includes(text));
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<Run> {
    this.child.kill(signal);
    await this.ended();
    return this.run();
  }

  async ended(): Promise<void> {
    await this.child.exited;
    await this.#read;
  }

  run(): Run {
    return { out: this.out, err: this.err, code: this.child.exitCode ?? -1 };
  }
}

/** Waits until a condition is true; gives up after 15 s. */
export async function until(what: string, isSo: () => boolean): Promise<void> {
  for (const end = Date.now() + 60_000; !isSo(); await Bun.sleep(5)) {
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
  }
}

async function collect(stream: ReadableStream<Uint8Array>, add: (text: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  for await (const bytes of stream) add(decoder.decode(bytes, { stream: true }));
}

let clock = Date.parse('2026-03-01T00:00:00.000Z');
/** Each later than the one before. */
function aTime(): string {
  clock += 1000;
  return new Date(clock).toISOString();
}
