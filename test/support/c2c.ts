import { closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { Running } from './bch.ts';
import { temporaryHome } from './home.ts';
import { PARLEY, personAt, Program } from './program.ts';
import type { Run } from './program.ts';

export interface As {
  /** The session that calls; without it none is named. */
  session?: string;
  env?: Record<string, string>;
  cwd?: string;
}

/** A machine of one's own with a broker on it. What a plain script does here is done with files alone. */
export class Brokerage {
  readonly program = new Program();
  readonly root = `${temporaryHome()}/broker`;

  env({ session, env }: As = {}): Record<string, string> {
    return {
      ...this.program.env,
      C2C_MCP_BROKER_ROOT: this.root,
      ...(session !== undefined && { C2C_MCP_SESSION_ID: session }),
      ...env,
    };
  }

  start(name: 'c2c' | 'parley' | 'c2c-deliver-inbox', args: string[], as: As = {}): Running {
    return new Running(name, args, this.env(as), as.cwd ?? this.program.home);
  }

  /** `c2c …` with these words. */
  async c2c(args: string[], as: As = {}): Promise<Run> {
    return this.#run('c2c', args, as);
  }

  async parley(args: string[], as: As = {}): Promise<Run> {
    return this.#run('parley', args, as);
  }

  /** What `c2c …` prints for the user, who types it at a terminal outside any client. It must succeed. */
  async byUser(args: string[], as: As = {}): Promise<string> {
    const { out, err, code } = await this.userRuns(args, as);
    if (code !== 0) throw new Error(`c2c ${args.join(' ')} ended with ${code}: ${err}`);
    return out;
  }

  async userRuns(args: string[], as: As = {}): Promise<Run> {
    return personAt({
      command: [PARLEY, 'c2c', ...args],
      cwd: as.cwd ?? this.program.home,
      env: this.env(as),
      typed: '',
      files: `${temporaryHome()}/said`,
    });
  }

  /** What `c2c …` prints. It must succeed and have nothing to complain about. */
  async said(args: string[], as: As = {}): Promise<string> {
    const { out, err, code } = await this.c2c(args, as);
    if (code !== 0 || err !== '') throw new Error(`c2c ${args.join(' ')} ended with ${code}: ${err}`);
    return out;
  }

  /** The JSON value that `c2c … --json` prints. */
  async json<T>(args: string[], as: As = {}): Promise<T> {
    return JSON.parse(await this.said([...args, '--json'], as)) as T;
  }

  /** The error text of `c2c …`, without its newline. The command must fail with the usual exit code. */
  async error(args: string[], as: As = {}): Promise<string> {
    const { out, err, code } = await this.c2c(args, as);
    if (code !== 1 || out !== '' || !/^error: [^\n]*\n$/.test(err)) {
      throw new Error(`c2c ${args.join(' ')} ended with ${code}: ${JSON.stringify({ out, err })}`);
    }
    return err.slice('error: '.length, -1);
  }

  /** Registers sessions that are called like their aliases. `pid` is the process that they live in; this one unless told otherwise. */
  async registered(aliases: string[], pid = process.pid): Promise<this> {
    for (const alias of aliases) {
      await this.said(['register', alias], { session: `s-${alias}`, env: { C2C_MCP_CLIENT_PID: String(pid) } });
    }
    return this;
  }

  /** The rows of the registry as they stand. */
  get rows(): Record<string, unknown>[] {
    return this.list('registry.json');
  }

  row(alias: string): Record<string, unknown> {
    const row = this.rows.find((one) => one['alias'] === alias);
    if (!row) throw new Error(`no row for ${alias}`);
    return row;
  }

  /** What waits in the inbox file of a session. */
  inbox(session: string): Record<string, unknown>[] {
    return this.list(`${session}.inbox.json`);
  }

  /** A JSON array of the broker, as it stands; empty if there is none. */
  list(name: string): Record<string, unknown>[] {
    const path = `${this.root}/${name}`;
    return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>[]) : [];
  }

  /** A file of the broker as another program leaves it. */
  plant(name: string, value: unknown): this {
    const path = `${this.root}/${name}`;
    mkdirSync(path.slice(0, path.lastIndexOf('/')), { recursive: true });
    writeFileSync(path, typeof value === 'string' ? value : JSON.stringify(value));
    return this;
  }

  async #run(name: 'c2c' | 'parley', args: string[], as: As): Promise<Run> {
    const running = this.start(name, args, as);
    await running.ended();
    return running.run();
  }
}

/** A pipe without a reader: every write fails. */
export function aBrokenPipe(): { fd: number; close(): void } {
  const path = `${temporaryHome()}/pipe`;
  Bun.spawnSync(['mkfifo', path]);
  const reader = openSync(path, 'r+');
  const fd = openSync(path, 'w');
  closeSync(reader);
  return { fd, close: () => closeSync(fd) };
}

/** A message as other programs leave it in an inbox. */
export function anOriginalEntry(fields: Record<string, unknown> = {}): Record<string, unknown> {
  return { from_alias: 'script', to_alias: 'bob', content: 'hello', ts: 1_770_000_000.25, ...fields };
}

/** The pid of a process that has ended. */
export async function aDeadProcess(): Promise<number> {
  const child = Bun.spawn(['true']);
  await child.exited;
  return child.pid;
}
