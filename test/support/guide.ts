// The `console` blocks of a page: what they show, and how a shell runs them.

import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { Glob } from 'bun';
import { temporaryHome } from './home.ts';
import { Shown } from './guide-text.ts';
import { personAt } from './program.ts';
import type { AtTerminal } from './program.ts';

const ROOT = new URL('../..', import.meta.url).pathname;
const NAMES = ['parley', 'bch', 'c2c', 'c2c-deliver-inbox'];
const CLIENTS = ['claude', 'codex', 'opencode', 'kimi', 'gemini'];
/** A command that takes this long hangs. */
const LIMIT_MS = 60_000;

/** One typed command of a page, and the lines that the page shows below it. */
export interface Step {
  line: number;
  command: string;
  output: string[];
}

/** A fenced block of a page, with the line of its first fence. */
export interface Block {
  line: number;
  language: string;
  lines: string[];
}

/** The fenced blocks of a page, those inside lists too. */
export function blocksIn(text: string): Block[] {
  const blocks: Block[] = [];
  let open: Block | null = null;
  let indent = 0;
  for (const [at, line] of text.split('\n').entries()) {
    const fence = /^(\s*)```(.*)$/.exec(line);
    if (!fence) open?.lines.push(line.slice(Math.min(indent, line.search(/\S|$/))));
    else if (open) open = null;
    else {
      indent = fence[1]?.length ?? 0;
      open = { line: at + 1, language: fence[2] ?? '', lines: [] };
      blocks.push(open);
    }
  }
  return blocks;
}

/** The steps of a `console` block. Lines that begin with `> ` right below a command are the rest of its text. */
export function stepsIn({ line, lines }: Block): Step[] {
  const steps: Step[] = [];
  for (const [at, text] of lines.entries()) {
    const step = steps.at(-1);
    if (text.startsWith('$ ')) steps.push({ line: line + at + 1, command: text.slice(2), output: [] });
    else if (!step) throw new Error(`line ${line + at + 1}: a console block begins with a line that is typed: $ …`);
    else if (text.startsWith('> ') && step.output.length === 0 && step.command.includes('<<'))
      step.command += `\n${text.slice(2)}`;
    else step.output.push(text);
  }
  if (steps.length === 0) throw new Error(`line ${line}: a console block without a command`);
  return steps;
}

/** A command that printed something else than its page shows. */
export interface Finding extends Step {
  printed: string;
}

/** A terminal in an empty home, where the commands of one page are typed one after the other. */
export class Terminal {
  readonly home = temporaryHome();
  readonly #state = temporaryHome();
  readonly #shown = new Shown(this.home, freePort());

  constructor() {
    mkdirSync(`${this.#state}/tmp`);
    mkdirSync(`${this.#state}/bin`);
    for (const name of NAMES) symlinkSync(`${ROOT}dist/parley`, `${this.#state}/bin/${name}`);
    symlinkSync(process.execPath, `${this.#state}/bin/bun`);
    symlinkSync(`${ROOT}examples`, `${this.home}/examples`);
    writeFileSync(`${this.#state}/env`, `cd '${this.home}'\n`);
    writeFileSync(`${this.#state}/jobs`, '');
  }

  /** Types one command and compares. Null if the page shows what was printed. */
  async type(step: Step): Promise<Finding | null> {
    const { command, output } = step;
    const stops = output.at(-1) === '^C';
    const expected = (stops ? output.slice(0, -1) : output).join('\n').trimEnd();
    const { shown } = await this.#run(this.#shown.typed(command), {
      typed: [...expected.matchAll(/Type yes:\n(.*)/g)].map(([, answer = '']) => answer),
      ...(stops && { interruptAfter: this.#shown.printedPattern(expected) }),
    });
    // What a command says after Ctrl-C is not shown.
    const printed = (stops ? (shown.split('^C')[0] ?? '') : shown).replaceAll(/[ \t]+$/gm, '').trimEnd();
    if (this.#shown.matches(expected, printed)) return null;
    return { ...step, printed: `${this.#shown.asPage(expected, printed)}${stops ? '\n^C' : ''}` };
  }

  /** Ends the daemon and the background commands of the page. */
  async close(): Promise<void> {
    const jobs = readFileSync(`${this.#state}/jobs`, 'utf8').trim().replaceAll('\n', ' ');
    const command = `parley down; kill ${jobs} 2>/dev/null`;
    await this.#run(command);
  }

  #run(command: string, more: Partial<AtTerminal> = {}): Promise<{ shown: string }> {
    return personAt({
      command: ['sh', '-c', SHELL, this.#state, command],
      cwd: this.home,
      env: this.#env,
      typed: '',
      limitMs: LIMIT_MS,
      ...more,
    });
  }

  get #env(): Record<string, string> {
    return {
      PATH: `${this.#state}/bin:${systemTools()}`,
      HOME: this.home,
      PARLEY_NO_DAEMON: '1',
      TMPDIR: `${this.#state}/tmp`,
      NO_COLOR: '1',
      TZ: 'UTC',
      LANG: 'C.UTF-8',
      TERM: 'dumb',
    };
  }
}

/** Keeps the folder and the exported variables from one command to the next, and lets background commands live on. */
const SHELL = `
trap '' HUP; trap : INT
. "$0/env"
eval "$1"
{ export -p; echo "cd '$PWD'"; } > "$0/env"
jobs -p >> "$0/jobs"
`;

let tools = '';
/** A folder with the programs of the system, but without the clients: what Parley finds there must not depend on the machine. */
function systemTools(): string {
  if (tools !== '') return tools;
  tools = temporaryHome();
  for (const name of readdirSync('/usr/bin'))
    if (!CLIENTS.includes(name)) symlinkSync(`/usr/bin/${name}`, `${tools}/${name}`);
  return tools;
}

function freePort(): number {
  const server = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data: () => {} } });
  server.stop(true);
  return server.port;
}

/** Builds dist/parley if it is missing or older than the sources. */
export function buildProgram(): void {
  const program = `${ROOT}dist/parley`;
  const built = existsSync(program) ? statSync(program).mtimeMs : 0;
  const sources = ['SKILL.md', 'package.json', ...new Glob('{src,plugins}/**/*.ts').scanSync(ROOT)];
  if (sources.every((path) => statSync(`${ROOT}${path}`).mtimeMs <= built)) return;
  const { exitCode, stderr } = Bun.spawnSync(['node', `${ROOT}scripts/build.mjs`]);
  if (exitCode !== 0) throw new Error(`the program does not build: ${stderr.toString()}`);
}
