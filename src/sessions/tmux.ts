import { Refusal } from '../core/refusal.ts';
import { drawn } from './screen.ts';
import { HalfTyped, pasteable } from './terminal.ts';
import type { Screen, Terminal } from './terminal.ts';

/** Which tmux server: a name (`-L`), a path (`-S`), or the user's own. */
export interface TmuxOptions {
  socket?: string;
  path?: string;
  env?: Record<string, string | undefined>;
  /** How long one command may take, in ms. */
  answerMs?: number;
}

/** The facts about a pane that are checked before typing. Their order matters: only the last may contain a colon. */
const FACTS = [
  'pid',
  'start_time',
  'pane_id',
  'pane_dead',
  'pane_in_mode',
  'pane_synchronized',
  'pane_input_off',
  'bracket_paste_flag',
  'cursor_x',
  'cursor_y',
  'pane_tty',
  'window_index',
  'pane_index',
  'session_activity',
  'session_name',
  'pane_current_command',
] as const;
type Facts = Record<(typeof FACTS)[number], string>;
const FORMAT = FACTS.map((fact) => `#{${fact}}`).join(':');

/** A program name without characters that are special in a tmux format. */
const PLAIN = /^[\w.+-]+$/;

/** A pane id, or an exact session name with an optional window and pane number. tmux would also accept prefixes and patterns. */
const TARGET = /^(%\d+|=[^:.=%@$][^:.]*:(\d+(\.\d+)?)?)$/;

/** A signal ended the tmux command. The server may or may not have run it. */
class CutOff extends Refusal {}

/** tmux did not answer in time. The server may still run the command later, and a retry would only wait again. */
class Hangs extends Refusal {}

/** Limit for one command, so that a tmux that hangs delays nothing else. */
const ANSWER_MS = 5000;

const PATTERN_LENGTH = 120;

const NOT_HERE = 'tmux is not installed here; install it, or use another way in';

/** Why sessions cannot run in tmux here; null if they can. */
export function tmuxTrouble({ PATH = '' }: Record<string, string | undefined>): string | null {
  return Bun.which('tmux', { PATH }) ? null : 'tmux is not installed, and sessions run in it: install it';
}

/** One tmux server. Each request is one `tmux` command, which draws nothing, changes no size, and selects nothing. */
export class TmuxServer {
  readonly #flags: string[];
  readonly #ownEnv: Record<string, string | undefined>;
  readonly #answerMs: number;

  /** Does not start the tmux server, which may not run yet. */
  constructor(options: TmuxOptions = {}) {
    if (options.socket !== undefined && !/^[A-Za-z0-9._-]+$/.test(options.socket))
      throw new Refusal(
        'invalid_request',
        'a tmux socket name has letters, digits, . _ -; give a path for anything else',
      );
    const env = options.env ?? process.env;
    const [own] = (env['TMUX'] ?? '').split(',');
    const path = options.path ?? (options.socket ? undefined : own);
    this.#flags = path ? ['-S', path] : options.socket ? ['-L', options.socket] : [];
    this.#ownEnv = { ...env, TMUX: undefined };
    this.#answerMs = options.answerMs ?? ANSWER_MS;
  }

  static async open(options: TmuxOptions = {}): Promise<TmuxServer> {
    const server = new TmuxServer(options);
    await server.run(['display-message', '-p', 'is it here?']);
    return server;
  }

  /** The terminal in one pane. `target` is `%3`, `=work:`, `=work:0` or `=work:0.1`. */
  async terminal(target: string): Promise<TmuxPane> {
    if (!TARGET.test(target))
      throw new Refusal(
        'invalid_request',
        `tmux target ${JSON.stringify(target)}: give a pane (%3) or an exact session (=name:)`,
      );
    return new TmuxPane(this, factsIn(await this.at(target, ['display-message', '-p', '-t', target, FORMAT])));
  }

  /** Runs commands about a target and returns their output. Checks the target with has-session, because many commands use another pane if theirs is missing. */
  async at(target: string, words: readonly string[], input?: string): Promise<string> {
    return this.run(['has-session', '-t', target, ';', ...words], input);
  }

  /** Runs tmux once, and starts the server if it does not run. */
  async create(words: readonly string[]): Promise<string> {
    return this.#run(words, '', this.#ownEnv);
  }

  /** Runs tmux once and returns its output. Throws its error text if it fails. Never starts a server. */
  async run(words: readonly string[], input = ''): Promise<string> {
    return this.#run(['-N', ...words], input, { ...this.#ownEnv, LC_ALL: 'C.UTF-8' });
  }

  async #run(words: readonly string[], input: string, env: Record<string, string | undefined>): Promise<string> {
    if (!Bun.which('tmux', { PATH: this.#ownEnv['PATH'] ?? '' })) throw new Refusal('unreachable', NOT_HERE);
    const child = Bun.spawn(['tmux', '-u', ...this.#flags, ...words], {
      env,
      stdin: new Blob([input]),
      stdout: 'pipe',
      stderr: 'pipe',
    });
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      child.kill('SIGKILL');
    }, this.#answerMs);
    const [printed, said, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]).finally(() => clearTimeout(timer));
    if (isLate) throw new Hangs('unreachable', `tmux did not answer within ${this.#answerMs / 1000} s`);
    if (child.signalCode !== null) throw new CutOff('unreachable', 'tmux was ended before it answered');
    if (code !== 0) throw new Refusal('unreachable', `tmux: ${said.trim() || 'the command failed'}`);
    return printed;
  }

  /** Nothing is kept open. */
  async close(): Promise<void> {}
}

/** A pane of tmux, by its id. The id is valid as long as the tmux server runs. */
export class TmuxPane implements Terminal {
  readonly name: string;
  readonly pane: string;
  /** The tmux server of the pane. A new server counts pane ids from 0 again, so the same id would name another pane. */
  readonly #server: string;
  #tty: string | null;
  #typedAt: string;
  /** The program in its foreground at the last look. */
  #program: string;

  constructor(
    readonly server: TmuxServer,
    facts: Facts,
  ) {
    this.pane = facts.pane_id;
    this.name = `tmux ${facts.session_name}:${facts.window_index}.${facts.pane_index}`;
    this.#server = serverIn(facts);
    this.#tty = facts.pane_tty || null;
    this.#program = facts.pane_current_command;
    this.#typedAt = facts.session_activity;
  }

  /** When a person last pressed a key in a terminal that shows this pane, as of the last look. Unix seconds. */
  get typedAt(): number {
    return Number(this.#typedAt);
  }

  /** Its device at the last look. It changes when the pane's program is restarted. */
  get tty(): string | null {
    return this.#tty;
  }

  async screen(): Promise<Screen | null> {
    const look = ['display-message', '-p', '-t', this.pane, FORMAT, ';', 'capture-pane', '-p', '-e', '-t', this.pane];
    const printed = await this.#again(() => this.server.at(this.pane, look)).catch((error: unknown) => {
      // A tmux that hangs does not prove that the terminal is gone.
      if (error instanceof Hangs) throw error;
      return null;
    });
    if (printed === null) return null;
    const [line = '', ...lines] = printed.replace(/\n$/, '').split('\n');
    const facts = factsIn(line);
    if (serverIn(facts) !== this.#server) return null;
    this.#tty = facts.pane_tty || null;
    this.#typedAt = facts.session_activity;
    this.#program = facts.pane_current_command;
    if (facts.pane_dead === '1') return null;
    return { ...drawn(lines), cursor: { row: Number(facts.cursor_y), column: Number(facts.cursor_x) } };
  }

  /** With `shows` it pastes under the same conditions as `press`. */
  async paste(text: string, shows?: readonly string[]): Promise<void> {
    pasteable(text);
    const buffer = `parley-${crypto.randomUUID()}`;
    // By standard input, because tmux keeps a log of its last commands (`show-messages`), and mail must not get into it.
    await this.#again(() => this.#ifFree(text, `load-buffer -b ${buffer} -`, { input: text }));
    try {
      // -r: keep newlines. -p: bracketed paste, if the program in the pane asked for it.
      await this.#once(`paste-buffer -d -p -r -t '${this.pane}' -b ${buffer}`, text, shows);
    } catch (error) {
      await this.#again(() => this.server.run(['delete-buffer', '-b', buffer])).catch(() => 'it is gone');
      throw error;
    }
  }

  async enter(): Promise<void> {
    await this.#once(`send-keys -t '${this.pane}' Enter`, '');
  }

  /**
   * Presses one key, if at that moment the screen shows these lines and no person has pressed a key since the last look. Otherwise it throws,
   * and nothing was pressed.
   */
  async press(key: Key, shows: readonly string[]): Promise<void> {
    await this.#once(`send-keys -t '${this.pane}' ${key}`, '', shows);
  }

  async erase(): Promise<void> {
    await this.#once(`send-keys -t '${this.pane}' C-u`, '');
  }

  /** Nothing is kept open. */
  async close(): Promise<void> {}

  /** For commands that may run twice: runs it a second time if the tmux command was ended by a signal. */
  async #again<T>(act: () => Promise<T>): Promise<T> {
    try {
      return await act();
    } catch (error) {
      if (error instanceof CutOff) return act();
      throw error;
    }
  }

  /**
   * Does this exactly once, or throws and has not done it, even if a signal ends the tmux command: an option of the pane, set in the same
   * step, records that it was done. If tmux hangs, it throws HalfTyped.
   */
  async #once(act: string, text: string, shows?: readonly string[]): Promise<void> {
    const mark = crypto.randomUUID();
    const step = `set-option -p -t '${this.pane}' @parley ${mark} ; ${act}`;
    const seen = shows && { typedAt: this.#typedAt, shows };
    try {
      await this.#ifFree(text, step, { seen });
    } catch (error) {
      if (error instanceof Hangs) throw new HalfTyped(`${error.message}, and may still run the command`);
      if (!(error instanceof CutOff)) throw error;
      const read = ['display-message', '-p', '-t', this.pane, '#{@parley}'];
      const last = await this.#again(() => this.server.at(this.pane, read));
      if (last.trim() !== mark) await this.#ifFree(text, step, { seen });
    }
  }

  /**
   * Does this only if the keys would reach the program that was in the pane at the last look, and not the shell below it. Otherwise it
   * throws. tmux checks and acts in one step, with nothing in between.
   */
  async #ifFree(
    text: string,
    act: string,
    { input, seen }: { input?: string; seen?: Seen | undefined },
  ): Promise<void> {
    const otherwise = `display-message -p -t '${this.pane}' '${FORMAT}'`;
    const free = isFree(this.#server, this.pane, this.#program, text);
    const condition = seen ? `#{&&:${free},${isAsSeen(seen)}}` : free;
    const step = ['if-shell', '-F', '-t', this.pane, condition, act, otherwise];
    const printed = await this.server.at(this.pane, step, input);
    if (printed === '') return;
    const facts = factsIn(printed);
    if (serverIn(facts) !== this.#server)
      throw new Refusal('unreachable', 'the tmux server was restarted, so this pane is gone');
    const because =
      whyNotFree(facts, this.#program, text) ?? (seen && whyNotAsSeen(facts, seen)) ?? 'nothing can be typed there now';
    throw new Refusal('busy', `${this.name}: ${because}`);
  }
}

/** A key by its tmux name. */
export type Key = 'Up' | 'Down' | 'Left' | 'Right' | 'Enter';

/** The findings of a look at the screen. */
interface Seen {
  typedAt: string;
  shows: readonly string[];
}

/** A condition for tmux: no person has typed since, and each of these lines is on the screen. */
function isAsSeen({ typedAt, shows }: Seen): string {
  const conditions = shows.map((line) => `#{C:${patternOf(line)}}`);
  return conditions.reduce((all, one) => `#{&&:${all},${one}}`, `#{==:#{session_activity},${typedAt}}`);
}

/** A line as a pattern for tmux. Other than plain characters become `*`, because tmux interprets them, and would even run commands. */
function patternOf(line: string): string {
  return line
    .trim()
    .slice(0, PATTERN_LENGTH)
    .replace(/[^A-Za-z0-9 .❯]+/g, '*');
}

function whyNotAsSeen(facts: Facts, { typedAt }: Seen): string {
  return facts.session_activity === typedAt ? 'the screen shows something else now' : 'somebody types there';
}

/** Identifies one run of a tmux server. */
function serverIn({ pid, start_time }: Facts): string {
  return `${pid} ${start_time}`;
}

/** A condition for tmux, checked in the same step as the typing: the pane takes keys for this program. */
function isFree(server: string, pane: string, program: string, text: string): string {
  const facts = FACTS.slice(0, 7).map((fact) => `#{${fact}}`);
  const known = `#{==:${facts.join(' ')},${server} ${pane} 0 0 0 0}`;
  const free = PLAIN.test(program) ? `#{&&:${known},#{==:#{pane_current_command},${program}}}` : known;
  return text.includes('\n') ? `#{&&:${free},#{!=:#{bracket_paste_flag},0}}` : free;
}

/** The same condition in words: why nothing may be typed there; null if it is met. */
function whyNotFree(facts: Facts, program: string, text: string): string | null {
  if (facts.pane_dead === '1') return 'the program in it has ended';
  if (facts.pane_current_command !== program) return 'another program runs in it now';
  if (facts.pane_in_mode !== '0') return 'its user is scrolling or copying';
  if (facts.pane_synchronized === '1') return 'it is synchronized: other panes would get the same keys';
  if (facts.pane_input_off === '1') return 'its input is switched off';
  // Older versions of tmux leave this flag empty.
  if (facts.bracket_paste_flag === '0' && text.includes('\n'))
    return 'its program takes no bracketed paste, and each line would be sent alone';
  return null;
}

function factsIn(line: string): Facts {
  const values = line.trimEnd().split(':');
  const last = values.splice(FACTS.length - 1).join(':');
  return Object.fromEntries(FACTS.map((fact, at) => [fact, values[at] ?? last])) as Facts;
}
