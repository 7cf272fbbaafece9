import { statSync } from 'node:fs';
import { stripVTControlCharacters } from 'node:util';
import type { ScreenOptions } from '../core/ports/session.ts';
import { Refusal } from '../core/refusal.ts';
import type { TmuxServer } from './tmux.ts';

/** The size of a detached session. People who attach to it change it. */
const SHOWN = 50;
const SIZE = ['-x', '200', '-y', String(SHOWN)];
const SHELL = /^-?(sh|ash|dash|bash|zsh|ksh|fish)$/;

/** An escape sequence that begins or ends a style. */
const SGR = /\x1b\[[\d;:]*m/g;

const SETTLE_MS = 2000;
const LOOK_MS = 50;

const FACTS = ['pane_id', 'pane_pid', 'pane_dead', 'pane_tty', 'pane_current_command', 'pane_start_command'] as const;
const FORMAT = FACTS.map((fact) => `#{${fact}}`).join('\t');
/** The name is last, and has no tab in it. */
const LIST_FORMAT = `${FORMAT}\t#{window_active}#{pane_active}\t#{session_name}`;

export interface Pane {
  /** `%3` */
  id: string;
  /** The pid of the process that tmux started in it. */
  pid: number;
  isDead: boolean;
  tty: string | null;
  /** The program in its foreground. */
  program: string;
  /** The command that it was started with; empty for a shell. */
  command: string;
}

/**
 * The name of a session's tmux session: `ccc-<name>`. If the name has a character that tmux does not allow, or already ends like a hash, a
 * hash of the whole name is appended, so that two sessions do not share a tmux session.
 */
export function tmuxNameOf(name: string): string {
  const safe = name.replace(/[^A-Za-z0-9_-]/g, '_');
  if (safe === name && !/-[0-9a-f]{6}$/.test(name)) return `ccc-${name}`;
  return `ccc-${safe}-${new Bun.CryptoHasher('sha256').update(name).digest('hex').slice(0, 6)}`;
}

/** One tmux session, by its exact name, with one program in it. It need not exist yet. */
export class TmuxSession {
  readonly #target: string;

  constructor(
    readonly server: TmuxServer,
    readonly name: string,
  ) {
    this.#target = `=${name}:`;
  }

  /** Its active pane; null if there is no such session, or tmux is not installed. */
  async pane(): Promise<Pane | null> {
    const words = ['display-message', '-p', '-t', this.#target, FORMAT];
    const printed = await this.server.at(this.#target, words).catch(isMissing);
    return printed === null ? null : paneIn(printed);
  }

  /**
   * Starts a program in it, without a shell, and creates the session if needed. People who are attached stay attached. When the program
   * ends, its last screen stays until `forget` is called. Refuses if something other than a shell runs there.
   */
  async start(command: readonly string[], folder: string): Promise<Pane> {
    if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
      throw new Refusal('not_found', `there is no folder ${folder}`);
    const there = await this.#settled();
    if (there && !isFree(there))
      throw new Refusal('busy', `${there.program} runs in the tmux session ${this.name}; end it first`);
    // `env` in front, because tmux would give a single word to a shell. An unescaped `;` at the end of a word would end the tmux command.
    const words = ['-c', verbatim(folder), '--', 'env', ...command].map((word) => word.replace(/;$/, '\\;'));
    const keep = ['set-option', '-p', '-t', this.#target, 'remain-on-exit', 'on'];
    const said = ['display-message', '-p', '-t', this.#target, FORMAT];
    if (there)
      return paneIn(
        await this.server.at(there.id, [...keep, ';', 'respawn-pane', '-k', '-t', there.id, ...words, ';', ...said]),
      );
    const make = ['new-session', '-d', '-s', this.name, ...SIZE, ...words];
    const create = (): Promise<string> => this.server.create([...make, ';', ...keep, ';', ...said]);
    return paneIn(await create().catch((error: unknown) => (isLeaving(error) ? create() : Promise.reject(error))));
  }

  /** The last line that its program wrote. Waits a little for it, because tmux may not have drawn the last output yet. */
  async lastLine(): Promise<string> {
    const until = performance.now() + SETTLE_MS;
    for (;;) {
      const pane = await this.pane();
      const shown = pane ? await lastLines(this.server, pane.id, 2 * SHOWN) : '';
      // tmux itself writes "Pane is dead" below the program's lines.
      const said = shown.split('\n').findLast((line) => line.trim() !== '' && !line.startsWith('Pane is dead'));
      if (said !== undefined || !pane || performance.now() > until) return said?.trim() ?? '';
      await Bun.sleep(LOOK_MS);
    }
  }

  /** From now on the tmux session ends with its program: the last screen is not kept. */
  async forget(): Promise<void> {
    await this.server
      .at(this.#target, ['set-option', '-p', '-u', '-t', this.#target, 'remain-on-exit'])
      .catch(isMissing);
  }

  /** Ends the tmux session and the program in it. */
  async end(): Promise<void> {
    await this.server.run(['kill-session', '-t', `=${this.name}`]).catch(isMissing);
  }

  /** Its pane, once it is free or the limit has passed: a shell takes a moment to return to the foreground after its program ended. */
  async #settled(): Promise<Pane | null> {
    const until = performance.now() + SETTLE_MS;
    for (;;) {
      const pane = await this.pane();
      if (!pane || isFree(pane) || performance.now() > until) return pane;
      await Bun.sleep(LOOK_MS);
    }
  }
}

/** Escapes a folder for tmux, which reads it as a format: `#(…)` would run a command. tmux itself does not expand `#[`. */
function verbatim(folder: string): string {
  return folder.replace(/#+(\[?)/g, (found, bracket) => (bracket === '' ? found + found : found));
}

/** Whether a program can be started in this pane without ending another: it holds a dead program or a shell. */
export function isFree({ isDead, program }: Pick<Pane, 'isDead' | 'program'>): boolean {
  return isDead || SHELL.test(program);
}

/** A pane, with the tmux session that it belongs to. */
export interface ListedPane extends Pane {
  session: string;
  /** It is the active pane of its session: the one that `TmuxSession.pane` returns. */
  isActive: boolean;
}

/** Every pane of this tmux server; none if the server does not run. */
export async function panesOf(server: TmuxServer): Promise<ListedPane[]> {
  const printed = (await server.run(['list-panes', '-a', '-F', LIST_FORMAT]).catch(isMissing)) ?? '';
  const lines = printed.split('\n').filter(Boolean);
  return lines.map((line) => {
    const [active, session = ''] = line.split('\t').slice(FACTS.length);
    return { ...paneIn(line), session, isActive: active === '11' };
  });
}

/** The pane of this tmux server with this device; null if there is none. */
export async function paneOn(server: TmuxServer, tty: string): Promise<Pane | null> {
  return (await panesOf(server)).find((pane) => pane.tty === tty && !pane.isDead) ?? null;
}

/** The last lines of a pane, at most `lines`. Blank lines at the end do not count. */
export async function lastLines(
  server: TmuxServer,
  pane: string,
  lines: number,
  { styles = false }: ScreenOptions = {},
): Promise<string> {
  const words = ['capture-pane', '-p', '-t', pane, '-S', `-${lines}`];
  if (styles) return lastStyledLines(await server.at(pane, [...words, '-e', '-N']), lines);
  const all = (await server.at(pane, words)).trimEnd().split('\n');
  return all
    .slice(-lines)
    .map((line) => line.trimEnd())
    .join('\n');
}

/** A style continues over line ends until another begins, so the open styles of the lines that are cut off are put before the rest. */
function lastStyledLines(printed: string, lines: number): string {
  const all = printed.split('\n');
  while (all.length > 1 && stripVTControlCharacters(all.at(-1) ?? '').trim() === '') all.pop();
  const kept = all.splice(-lines);
  const begun = all.join('').match(SGR)?.join('').split('\x1b[0m').at(-1) ?? '';
  return begun + kept.join('\n');
}

/** A tmux server exits when its last session ends. The next command starts a new one. */
function isLeaving(error: unknown): boolean {
  return error instanceof Refusal && /server exited|lost server/.test(error.message);
}

/** No server or no such session: treat as absent. */
function isMissing(error: unknown): null {
  if (
    error instanceof Refusal &&
    /no server running|error connecting|can't find|no sessions|no current target|lost server|server exited|not installed/.test(
      error.message,
    )
  )
    return null;
  throw error;
}

function paneIn(line: string): Pane {
  const [id = '', pid = '', dead = '', tty = '', program = '', command = ''] = line.trimEnd().split('\t');
  return { id, pid: Number(pid), isDead: dead === '1', tty: tty || null, program, command };
}
