import { Refusal } from '../protocol/refusal.ts';
import { ControlClient } from './control-mode.ts';
import { drawn } from './drawn.ts';
import { pasteable } from './pasteable.ts';
import type { Screen, Terminal } from './terminal.ts';

/** Which tmux server: a name (`-L`), a path (`-S`), or the user's own. */
export interface TmuxOptions {
  socket?: string;
  path?: string;
  env?: Record<string, string | undefined>;
}

/** What must be known of a pane before anything is typed into it, in this order. No name has a colon in it. */
const FACTS = [
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
  'session_name',
] as const;
type Facts = Record<(typeof FACTS)[number], string>;
const FORMAT = FACTS.map((fact) => `#{${fact}}`).join(':');

/** A pane id, or an exact session with perhaps a window and a pane by number: a name that only resembles it is not meant. */
const TARGET = /^(%\d+|=[^:.=%@$][^:.]*:(\d+(\.\d+)?)?)$/;

/**
 * One tmux server, reached by one control-mode client that draws nothing, changes no size, and selects nothing.
 * A client of tmux belongs to a session and ends with it; the next command then attaches to another one, but only of the same
 * server: pane ids begin anew with each server, and a stale one would name somebody else's pane.
 */
export class TmuxServer {
  readonly #flags: string[];
  readonly #env: Record<string, string | undefined>;
  #client: ControlClient | null = null;
  #life: string | null = null;
  #closed = false;

  private constructor(options: TmuxOptions) {
    if (options.socket !== undefined && !/^[A-Za-z0-9._-]+$/.test(options.socket))
      throw new Refusal(
        'invalid_request',
        'a tmux socket name has letters, digits, . _ -; give a path for anything else',
      );
    const env = options.env ?? process.env;
    const [own] = (env['TMUX'] ?? '').split(',');
    const path = options.path ?? (options.socket ? undefined : own);
    this.#flags = path ? ['-S', path] : options.socket ? ['-L', options.socket] : [];
    // Inside of tmux, tmux refuses to attach.
    this.#env = { ...env, TMUX: undefined, LC_ALL: 'C.UTF-8' };
  }

  static async open(options: TmuxOptions = {}): Promise<TmuxServer> {
    if (!Bun.which('tmux', { PATH: (options.env ?? process.env)['PATH'] ?? '' }))
      throw new Refusal('unreachable', 'tmux is not installed here; install it, or use another way in');
    const server = new TmuxServer(options);
    await server.#connect();
    return server;
  }

  /** The terminal in one pane. `target` is `%3`, `=work:`, `=work:0` or `=work:0.1`. */
  async terminal(target: string): Promise<TmuxPane> {
    if (!TARGET.test(target))
      throw new Refusal(
        'invalid_request',
        `tmux target ${JSON.stringify(target)}: give a pane (%3) or an exact session (=name:)`,
      );
    // display-message takes any pane if it does not find the one that is asked for; has-session does not.
    const [, [line = ''] = []] = await this.look(
      ['has-session', '-t', target],
      ['display-message', '-p', '-t', target, FORMAT],
    );
    return new TmuxPane(this, factsIn(line));
  }

  /** Commands as lists of words; what each printed. */
  async ask(...commands: string[][]): Promise<string[][]> {
    const client = this.#client?.isGone === false ? this.#client : await this.#connect();
    return client.ask(...commands);
  }

  /** The same for commands that change nothing: if the connection ends meanwhile, they are asked once more on the next. */
  async look(...commands: string[][]): Promise<string[][]> {
    const client = this.#client;
    try {
      return await this.ask(...commands);
    } catch (error) {
      if (client?.isGone !== true || this.#closed) throw error;
      return this.ask(...commands);
    }
  }

  /** Runs tmux once, with this on its standard input. */
  async feed(words: string[], input: string): Promise<void> {
    const child = Bun.spawn(['tmux', ...this.#flags, '-N', ...words], {
      env: this.#env,
      stdin: new Blob([input]),
      stdout: 'ignore',
      stderr: 'pipe',
    });
    const [said, code] = await Promise.all([new Response(child.stderr).text(), child.exited]);
    if (code !== 0) throw new Refusal('unreachable', `tmux: ${said.trim()}`);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#client?.close();
  }

  async #connect(): Promise<ControlClient> {
    if (this.#closed) throw new Refusal('unreachable', 'this connection to tmux is closed');
    await this.#client?.close();
    const attach = ['attach-session', '-E', '-f', 'no-output,ignore-size'];
    const client = new ControlClient(['tmux', '-u', '-C', ...this.#flags, '-N', ...attach], this.#env);
    this.#client = client;
    const [[life = ''] = []] = await client.ask(['display-message', '-p', '#{pid} #{start_time}']);
    if (this.#life !== null && this.#life !== life) {
      await client.close();
      throw new Refusal('unreachable', 'the tmux server was started anew; its panes are others now');
    }
    this.#life = life;
    return client;
  }
}

/** A pane of tmux, by its id: that names it for as long as the server lives. */
export class TmuxPane implements Terminal {
  readonly name: string;
  readonly pane: string;
  #tty: string | null;

  constructor(
    readonly server: TmuxServer,
    facts: Facts,
  ) {
    this.pane = facts.pane_id;
    this.name = `tmux ${facts.session_name}:${facts.window_index}.${facts.pane_index}`;
    this.#tty = facts.pane_tty || null;
  }

  /** As of the last look: a pane whose program was started anew has another device. */
  get tty(): string | null {
    return this.#tty;
  }

  async screen(): Promise<Screen | null> {
    const look = [...this.#look(), ['capture-pane', '-p', '-e', '-t', this.pane]];
    const answers = await this.server.look(...look).catch(() => null);
    if (!answers) return null;
    const facts = factsIn(answers[1]?.[0] ?? '');
    this.#tty = facts.pane_tty || null;
    if (facts.pane_dead === '1') return null;
    return { ...drawn(answers[2] ?? []), cursor: { row: Number(facts.cursor_y), column: Number(facts.cursor_x) } };
  }

  async paste(text: string): Promise<void> {
    pasteable(text);
    await this.#free(text);
    const buffer = `parley-${crypto.randomUUID()}`;
    await this.server.feed(['load-buffer', '-b', buffer, '-'], text);
    try {
      // -r: newlines stay newlines. -p: brackets, as the program in the pane asked for.
      await this.server.ask(['paste-buffer', '-p', '-r', '-d', '-b', buffer, '-t', this.pane]);
    } catch (error) {
      if (await this.#isStillThere(buffer)) throw error;
    }
  }

  /** A paste takes its buffer away. Where the connection broke, a buffer that is left says that nothing was pasted. */
  async #isStillThere(buffer: string): Promise<boolean> {
    const left = await this.server.look(['list-buffers', '-F', '#{buffer_name}']);
    if (!left[0]?.includes(buffer)) return false;
    await this.server.ask(['delete-buffer', '-b', buffer]);
    return true;
  }

  async enter(): Promise<void> {
    await this.#key('Enter');
  }

  async erase(): Promise<void> {
    await this.#key('C-u');
  }

  /** The server is shared by its panes and closed by whoever opened it. */
  async close(): Promise<void> {}

  async #key(key: string): Promise<void> {
    await this.#free('');
    await this.server.ask(['send-keys', '-t', this.pane, key]);
  }

  /** Throws if what is typed would go elsewhere, or nowhere. */
  async #free(text: string): Promise<void> {
    const [, [line = ''] = []] = await this.server.look(...this.#look());
    const facts = factsIn(line);
    const because = standsInTheWay(facts, text);
    if (because) throw new Refusal('busy', `${this.name}: ${because}`);
  }

  #look(): string[][] {
    return [
      ['has-session', '-t', this.pane],
      ['display-message', '-p', '-t', this.pane, FORMAT],
    ];
  }
}

function standsInTheWay(facts: Facts, text: string): string | null {
  if (facts.pane_dead === '1') return 'the program in it has ended';
  if (facts.pane_in_mode !== '0') return 'its user is scrolling or copying';
  if (facts.pane_synchronized === '1') return 'it is synchronized: other panes would get the same keys';
  if (facts.pane_input_off === '1') return 'its input is switched off';
  // Only newer versions of tmux know; an older one leaves this empty.
  if (facts.bracket_paste_flag === '0' && text.includes('\n'))
    return 'its program takes no bracketed paste, and each line would be sent alone';
  return null;
}

function factsIn(line: string): Facts {
  const values = line.split(':');
  return Object.fromEntries(FACTS.map((fact, at) => [fact, values[at] ?? ''])) as Facts;
}
