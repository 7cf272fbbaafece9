import { temporaryHome } from './home.ts';

const MAIN = new URL('../../src/cli/main.ts', import.meta.url).pathname;

/** What a run of the program gave. */
export interface Run {
  out: string;
  err: string;
  code: number;
}

/** The real program on a home of its own. Nothing of the user's environment reaches it. */
export class Program {
  constructor(
    readonly home = temporaryHome(),
    readonly extra: Record<string, string> = {},
  ) {}

  get env(): Record<string, string> {
    const { PATH = '' } = process.env;
    return { PATH, HOME: this.home, BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0', ...this.extra };
  }

  /** `parley …` with these words, and perhaps something on stdin. */
  async run(args: string[], options: { as?: string; stdin?: string; name?: string; cwd?: string } = {}): Promise<Run> {
    const child = Bun.spawn([process.execPath, MAIN, ...args], {
      argv0: options.name ?? 'parley',
      cwd: options.cwd ?? this.home,
      env: { ...this.env, ...(options.as && { PARLEY_AGENT: options.as }) },
      stdin: new Blob([options.stdin ?? '']),
      stdout: 'pipe',
      stderr: 'pipe',
    });
    const [out, err, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    return { out, err, code };
  }

  /** `parley …` at a terminal, where somebody types these lines when it asks. What it writes is one text: a terminal is one place. */
  async atTerminal(
    args: string[],
    typed: string | readonly string[],
    options: { as?: string; env?: Record<string, string> } = {},
  ): Promise<{ shown: string; code: number }> {
    let shown = '';
    let answered = 0;
    const answers = [typed].flat();
    const child = Bun.spawn([process.execPath, MAIN, ...args], {
      argv0: 'parley',
      cwd: this.home,
      env: { ...this.env, NO_COLOR: '1', ...(options.as && { PARLEY_AGENT: options.as }), ...options.env },
      terminal: {
        cols: 200,
        data: (terminal, bytes) => {
          shown += new TextDecoder().decode(bytes);
          for (; answered < shown.split('Type yes:').length - 1; answered += 1)
            terminal.write(`${answers[answered] ?? answers.at(-1)}\n`);
        },
      },
    });
    const code = await child.exited;
    child.terminal?.close();
    return { shown: shown.replaceAll('\r\n', '\n'), code };
  }

  /** The JSON value that a command prints. It must succeed. */
  async json<T>(args: string[], options: { as?: string } = {}): Promise<T> {
    const run = await this.run([...args, '--json'], options);
    if (run.code !== 0) throw new Error(`parley ${args.join(' ')} ended with ${run.code}: ${run.err}`);
    return JSON.parse(run.out) as T;
  }

  /** Makes mailboxes; the first is who the user is. */
  async init(...names: string[]): Promise<this> {
    for (const name of names) await this.run(['init', name]);
    return this;
  }
}
