import { temporaryHome } from './home.ts';

/** The compiled program. `npm test` builds it first, and names it here. */
export const PARLEY = process.env['PARLEY_TEST_PROGRAM'] ?? built();

function built(): string {
  const { PROGRAM, isBuilt } = require('../../scripts/built.mjs') as { PROGRAM: string; isBuilt: () => boolean };
  if (isBuilt()) return PROGRAM;
  console.error('dist/parley is missing or older than the sources; type: npm run build');
  process.exit(1);
}

/** What a run of the program gave. */
export interface Run {
  out: string;
  err: string;
  code: number;
}

/** The real program on a home of its own. Nothing of the user's environment reaches it. What a person does is typed at a terminal. */
export class Program {
  readonly #people = new Set<string>();
  #default = '';

  constructor(
    readonly home = temporaryHome(),
    readonly extra: Record<string, string> = {},
  ) {}

  get env(): Record<string, string> {
    const { PATH = '' } = process.env;
    return { PATH, HOME: this.home, PARLEY_NO_DAEMON: '1', BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0', ...this.extra };
  }

  /** `parley …` with these words, and perhaps something on stdin. Under a person's name it is typed at a terminal, unless stdin is given. */
  async run(args: string[], options: { as?: string; stdin?: string; name?: string; cwd?: string } = {}): Promise<Run> {
    const name = args.includes('--as') ? args[args.indexOf('--as') + 1] : (options.as ?? this.#default);
    const isPerson = this.#people.has(name ?? '') || (args[0] === 'init' && args.includes('--human'));
    if (isPerson && options.stdin === undefined) return this.byPerson(args, options);
    const run = await this.withoutTerminal(args, options);
    this.#remember(args, run);
    return run;
  }

  /** `parley …` as a script or a client starts it. */
  async withoutTerminal(
    args: string[],
    options: { as?: string; stdin?: string; name?: string; cwd?: string; env?: Record<string, string> } = {},
  ): Promise<Run> {
    const child = Bun.spawn([PARLEY, ...args], {
      argv0: options.name ?? 'parley',
      cwd: options.cwd ?? this.home,
      env: { ...this.env, ...(options.as && { PARLEY_AGENT: options.as }), ...options.env },
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

  /** Who is a person, and who the user is without saying it. */
  #remember([command, name = '', ...more]: string[], { code }: Run): void {
    if (command !== 'init' || code !== 0) return;
    if (more.includes('--human')) this.#people.add(name);
    if (this.#default === '' || more.includes('--default')) this.#default = name;
  }

  /** `parley …` at a terminal, where a person types these lines when it asks. What it writes is one text: a terminal is one place. */
  async atTerminal(
    args: string[],
    typed: string | readonly string[] = '',
    options: { as?: string; env?: Record<string, string>; cwd?: string; below?: string[] } = {},
  ): Promise<{ shown: string; code: number }> {
    const { below = [] } = options;
    return personAt({
      command: [...below, PARLEY, ...args],
      // What runs it has a name of its own.
      ...(below.length === 0 && { argv0: 'parley' }),
      cwd: options.cwd ?? this.home,
      env: { ...this.env, NO_COLOR: '1', ...(options.as && { PARLEY_AGENT: options.as }), ...options.env },
      typed,
    });
  }

  /** `parley …` as the user runs it, at a terminal, with its output in files. */
  async byPerson(
    args: string[],
    options: { as?: string; cwd?: string; env?: Record<string, string> } = {},
  ): Promise<Run> {
    const run = await personAt({
      command: [PARLEY, ...args],
      cwd: options.cwd ?? this.home,
      env: { ...this.env, ...(options.as && { PARLEY_AGENT: options.as }), ...options.env },
      typed: '',
      files: `${temporaryHome()}/said`,
    });
    this.#remember(args, run);
    return run;
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

/** A command that a person types at a terminal. */
export interface AtTerminal {
  command: string[];
  argv0?: string;
  cwd: string;
  env: Record<string, string>;
  typed: string | readonly string[];
  /** Where its output goes, with `.out` and `.err` behind it; otherwise the terminal shows it. */
  files?: string;
  /** Ctrl-C is typed when what is shown matches this. */
  interruptAfter?: string;
  /** How wide it is; 200 unless told. */
  cols?: number;
  /** A command that runs longer is ended, with all that it started in the foreground. */
  limitMs?: number;
}

const PERSON = new URL('./person.child.ts', import.meta.url).pathname;

/** Runs it with no process of ours above it: the shell that starts it ends at once. */
export async function personAt(order: AtTerminal): Promise<Run & { shown: string }> {
  const starter = Bun.spawn(['sh', '-c', '"$@" &', 'sh', process.execPath, PERSON, JSON.stringify(order)], {
    env: { PATH: order.env['PATH'] ?? '', HOME: order.env['HOME'] ?? '', BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0' },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'inherit',
  });
  return JSON.parse(await new Response(starter.stdout).text()) as Run & { shown: string };
}
