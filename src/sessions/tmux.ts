import { Refusal } from '../protocol/refusal.ts';
import { ControlClient } from './control-mode.ts';
import { drawn } from './screen.ts';
import { pasteable } from './terminal.ts';
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

/**
 * Such a text goes to tmux as a word of its command, which saves starting a tmux of its own for it. tmux remembers its last commands for
 * its user (`show-messages`), and a message has no place there: its envelope has several lines, so it never goes this way.
 */
const SHORT_LINE = /^[^\t\n]{1,200}$/;

/** A pane id, or an exact session with perhaps a window and a pane by number: a name that only resembles it is not meant. */
const TARGET = /^(%\d+|=[^:.=%@$][^:.]*:(\d+(\.\d+)?)?)$/;

/**
 * One tmux server, reached by one control-mode client that draws nothing, changes no size, and selects nothing.
 * A client of tmux belongs to a session and ends with it; the next command then attaches to another one, but only of the same
 * server: pane ids start again with each server, and a stale one would name another pane.
 */
export class TmuxServer {
  readonly #flags: string[];
  readonly #env: Record<string, string | undefined>;
  #client: ControlClient | null = null;
  #connecting: Promise<ControlClient> | null = null;
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
    await server.#connection();
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
    return (await this.#connection()).ask(...commands);
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

  /** See ControlClient: checked and done in one step. Not asked again if the connection ends: it may have been done. */
  async when(pane: string, holds: string, act: string[][], otherwise: string[][]): Promise<string[]> {
    return (await this.#connection()).when(pane, holds, act, otherwise);
  }

  /** Whether the connection to it has ended. The next command makes another one. */
  get isCutOff(): boolean {
    return this.#client?.isGone !== false;
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
    await this.#connecting?.catch(() => 'there is nothing to close');
    await this.#client?.close();
  }

  /** The one connection, made again if it has ended. Calls that come meanwhile wait for the same. */
  async #connection(): Promise<ControlClient> {
    if (this.#client?.isGone === false) return this.#client;
    this.#connecting ??= this.#connect().finally(() => (this.#connecting = null));
    return this.#connecting;
  }

  async #connect(): Promise<ControlClient> {
    if (this.#closed) throw new Refusal('unreachable', 'this connection to tmux is closed');
    await this.#client?.close();
    const attach = ['attach-session', '-E', '-f', 'no-output,ignore-size'];
    const client = new ControlClient(['tmux', '-u', '-C', ...this.#flags, '-N', ...attach], this.#env);
    try {
      const [[life = ''] = []] = await client.ask(['display-message', '-p', '#{pid} #{start_time}']);
      if (this.#life !== null && this.#life !== life)
        throw new Refusal('unreachable', 'the tmux server was restarted; its panes are others now');
      this.#life = life;
    } catch (error) {
      await client.close();
      throw error;
    }
    // Nobody speaks with it before it is known to be the same server.
    this.#client = client;
    return client;
  }
}

/** A pane of tmux, by its id: that names it for as long as the server lives. */
export class TmuxPane implements Terminal {
  readonly name: string;
  readonly pane: string;
  #tty: string | null;
  #tidying: Promise<unknown> = Promise.resolve();

  constructor(
    readonly server: TmuxServer,
    facts: Facts,
  ) {
    this.pane = facts.pane_id;
    this.name = `tmux ${facts.session_name}:${facts.window_index}.${facts.pane_index}`;
    this.#tty = facts.pane_tty || null;
  }

  /** As of the last look: a pane whose program was restarted has another device. */
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
    const name = aName();
    // -r: newlines stay newlines. -p: brackets, as the program in the pane asked for.
    const paste = ['paste-buffer', '-p', '-r', '-t', this.pane, '-b'];
    if (SHORT_LINE.test(text)) return this.#once(name, text, [...paste, name], text);
    // Another server may have taken the place of this one: it is given nothing.
    await this.server.look(['has-session', '-t', this.pane]);
    await this.server.feed(['load-buffer', '-b', `${name}-text`, '-'], text);
    try {
      await this.#once(name, 'pasted', [...paste, `${name}-text`], text);
    } finally {
      this.#forget(`${name}-text`);
    }
  }

  async enter(): Promise<void> {
    await this.#key('Enter');
  }

  async erase(): Promise<void> {
    await this.#key('C-u');
  }

  /** The server is shared by its panes and closed by its opener. */
  async close(): Promise<void> {
    await this.#tidying;
  }

  async #key(key: string): Promise<void> {
    await this.#once(aName(), key, ['send-keys', '-t', this.pane, key], '');
  }

  /**
   * Does this exactly once, or throws and has not done it, also if the connection ends meanwhile. The buffer is there when, and only
   * when, it was done: it is set in the same step, and taken away when tmux has answered.
   */
  async #once(name: string, content: string, act: string[], text: string): Promise<void> {
    for (let triesLeft = 1; ; triesLeft -= 1) {
      try {
        await this.#ifFree([['set-buffer', '-b', name, '--', content], act], text);
        this.#forget(name);
        return;
      } catch (error) {
        const wasCutOff = this.server.isCutOff;
        const isDone = await this.#isThere(name);
        if (isDone) this.#forget(name);
        // Where the connection holds, tmux itself said why not.
        if (!wasCutOff || (!isDone && triesLeft === 0)) throw error;
        if (isDone) return;
      }
    }
  }

  async #isThere(buffer: string): Promise<boolean> {
    const [names] = await this.server.look(['list-buffers', '-F', '#{buffer_name}']);
    return names?.includes(buffer) === true;
  }

  /** Nobody waits for that: what comes next goes the same way behind it. It may be asked twice, for the name is nobody else's. */
  #forget(buffer: string): void {
    const gone = this.server.look(['delete-buffer', '-b', buffer]).catch(() => 'it does no harm where it is');
    this.#tidying = Promise.all([this.#tidying, gone]);
  }

  /** Does this if what is typed would go to the program in the pane; throws if it would go elsewhere, or nowhere. */
  async #ifFree(act: string[][], text: string): Promise<void> {
    const look = ['display-message', '-p', '-t', this.pane, FORMAT];
    const [line] = await this.server.when(this.pane, isFree(this.pane, text), act, [look]);
    if (line === undefined) return;
    const because = standsInTheWay(factsIn(line), text) ?? 'nothing can be typed there just now';
    throw new Refusal('busy', `${this.name}: ${because}`);
  }

  #look(): string[][] {
    return [
      ['has-session', '-t', this.pane],
      ['display-message', '-p', '-t', this.pane, FORMAT],
    ];
  }
}

const aName = (): string => `parley-${crypto.randomUUID()}`;

/** The same as a condition of tmux, which it checks in the step in which it types. */
function isFree(pane: string, text: string): string {
  const free = `#{==:#{pane_id} #{pane_dead} #{pane_in_mode} #{pane_synchronized} #{pane_input_off},${pane} 0 0 0 0}`;
  return text.includes('\n') ? `#{&&:${free},#{!=:#{bracket_paste_flag},0}}` : free;
}

/** Why nothing may be typed there: in words what `isFree` asks. */
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
