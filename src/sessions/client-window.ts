import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import type { Env } from '../core/env.ts';
import type { ScreenOptions } from '../core/ports/session.ts';
import { Refusal } from '../core/refusal.ts';
import { isProcessAlive, parentOf, signalTo, startedAt, startOf, ttyOf } from '../platform/process.ts';
import type { ReadComposer } from './terminal.ts';
import { isFree, lastLines, paneOn, panesOf, TmuxSession, tmuxNameOf, type ListedPane } from './tmux-session.ts';
import { type TmuxPane, TmuxServer } from './tmux.ts';

/** The shortest time between two looks at tmux: each one starts a process. */
const LOOK_MS = 2000;
/** The same for a session without a window. A window that we start is looked at immediately, so this only delays finding a person's. */
const NO_WINDOW_LOOK_MS = 10_000;
const END_MS = 5000;
const POLL_MS = 50;

export interface Found {
  pid: number;
  /** The start time of the process: tells it from a later process with the same pid. */
  start: string | null;
}

export interface WindowOptions {
  /** The name of the session. */
  name: string;
  /** The real path of the folder in which the client is started. */
  folder: string;
  env: Env;
  /** The variable for the folder of the client's files. It is passed on, because the tmux server may have another value. */
  variable: string;
  composer: ReadComposer;
  /** What an open dialog is about, as far as the client's screen shows it. */
  question?: (lines: readonly string[]) => string;
  /** Whether a process is the client in a terminal: by its command line, its executable and its pid. */
  isClient: (words: readonly string[], file: string, pid: number) => boolean;
  /** Another session has the same folder, so a client that a person opened there may belong to either. */
  sharesFolder?: boolean | undefined;
  /** The names of the sessions that have a terminal, by its device. */
  claims?: Map<string, string>;
}

/** The window of one session of a client: the process in its tmux session. */
export class ClientWindow {
  /** What the client asks its user on the screen: `dialog open: sign in`. Only looked for while its conversation is unknown. */
  question: string | null = null;
  readonly #tmux: TmuxServer;
  readonly #panes: SharedPanes;
  readonly #session: TmuxSession;
  #found: Found | null = null;
  /** The terminals in the tmux sessions of all other sessions, even if another process controls those. */
  #others = new Set<string>();
  #lookedAt = -Infinity;
  #startedAt = 0;
  #looking: Promise<void> | null = null;

  readonly #claims: Map<string, string>;
  /** The terminal that this session has in `claims`. */
  #claimed: string | null = null;

  constructor(readonly options: WindowOptions) {
    const { name, env } = options;
    this.#tmux = new TmuxServer({ env });
    this.#panes = SharedPanes.of(this.#tmux, env);
    this.#session = new TmuxSession(this.#tmux, tmuxNameOf(name));
    this.#claims = options.claims ?? new Map<string, string>();
  }

  /** The client's pid as of the last look; null if it has ended since. Cheap. */
  get pid(): number | null {
    if (this.#found && !isSame(this.#found)) {
      this.#found = null;
      this.#claim(null);
    }
    return this.#found?.pid ?? null;
  }

  /** When its process started, Unix ms: exact if we started it, else slightly too early; 0 where the system does not tell. */
  startOf(pid: number): number {
    return Math.max(startedAt(pid) ?? 0, pid === this.pid ? this.#startedAt : 0);
  }

  /** Looks again if the last look is old. Waits only for the first look; the results of later ones show up afterwards. */
  async refresh(isKnown: () => boolean): Promise<void> {
    const isFirst = this.#lookedAt === -Infinity;
    const pauseMs = this.pid === null ? NO_WINDOW_LOOK_MS : LOOK_MS;
    if (Date.now() - this.#lookedAt < pauseMs || (this.pid !== null && isKnown())) return;
    const look = this.look(pauseMs).then(() => this.lookForQuestion(isKnown()));
    if (isFirst) await look;
    // A tmux that hangs does not prove that the window is gone.
    else look.catch(() => 'the next look may do');
  }

  /** Whether the first look is done. Before that it is unknown which session the windows in this folder belong to. */
  get isLookedAt(): boolean {
    return this.#lookedAt > -Infinity && this.#looking === null;
  }

  /** Looks at tmux. Uses the last look of another session if it is not older than `atMostMs`. */
  look(atMostMs = 0): Promise<void> {
    this.#lookedAt = Date.now();
    this.#looking ??= this.#look(atMostMs).finally(() => (this.#looking = null));
    return this.#looking;
  }

  async #look(atMostMs: number): Promise<void> {
    const panes = await this.#panes.look(atMostMs);
    const { name } = this.#session;
    const others = panes.filter(({ session }) => session.startsWith('ccc-') && session !== name);
    this.#others = new Set(others.flatMap(({ tty }) => tty ?? []));
    const pane = panes.find(({ session, isActive }) => session === name && isActive);
    // A free pane has no client, except in the moment in which a shell that we started becomes the client (`exec`).
    if (!pane || (isFree(pane) && (pane.isDead || !pane.command.includes('exec ')))) return;
    const { tty } = pane;
    this.#claim(tty);
    // The client may be a child of the pane's process: npm starts it by a script, and a person by a shell.
    const pid = windowsOf(this.options).find((window) => window.tty === tty)?.pid ?? pane.pid;
    this.#found = { pid, start: startOf(pid) };
  }

  /** Claims this terminal and releases the one before: the system gives the device of a closed terminal to the next one. */
  #claim(tty: string | null): void {
    const { name } = this.options;
    const before = this.#claimed;
    if (before !== null && before !== tty && this.#claims.get(before) === name) this.#claims.delete(before);
    this.#claimed = tty;
    if (tty !== null) this.#claims.set(tty, name);
  }

  async lookForQuestion(isKnown: boolean): Promise<void> {
    const pane = this.pid === null || isKnown ? null : await this.#session.pane();
    const screen = pane && (await (await this.#tmux.terminal(pane.id)).screen());
    const { composer, question } = this.options;
    const isOpen = screen !== null && composer(screen) === 'dialog';
    this.question = isOpen ? (question?.(screen.lines) ?? 'dialog open') : null;
  }

  /** The clients that a person opened in this folder, in terminals that no session has; null where the system does not tell. */
  elsewhere(): Found[] | null {
    if (process.platform !== 'linux') return null;
    const free = windowsOf(this.options).filter(({ tty }) => !this.#claims.has(tty) && !this.#others.has(tty));
    return free.map(({ pid }) => ({ pid, start: startOf(pid) }));
  }

  /** The only client that a person opened in this folder, if it cannot belong to another session; else null. */
  byHand(): Found | null {
    if (this.options.sharesFolder || !this.isLookedAt) return null;
    const [only, ...others] = this.elsewhere() ?? [];
    return others.length === 0 ? (only ?? null) : null;
  }

  /** The pane in which this client runs; null if it runs outside of tmux. */
  async terminalOf(pid: number): Promise<TmuxPane | null> {
    const tty = ttyOf(pid);
    const pane = tty === null ? await this.#session.pane() : await paneOn(this.#tmux, tty);
    return pane && this.#tmux.terminal(pane.id);
  }

  /** Starts the client. If it ends, its last screen stays until `settle`. */
  async start(words: readonly string[]): Promise<void> {
    const { env, variable, folder } = this.options;
    const moved = env[variable];
    this.#startedAt = Date.now();
    const { pid } = await this.#session.start([...(moved ? [`${variable}=${moved}`] : []), ...words], folder);
    // `look` may still see the shell that starts it.
    this.#found = { pid, start: startOf(pid) };
    await this.look();
  }

  async settle(): Promise<void> {
    await this.#session.forget();
    await this.look();
  }

  /** Ends the tmux session and waits until the client's process is gone. */
  async end(): Promise<void> {
    const found = this.#found;
    this.#found = null;
    this.#claim(null);
    this.#startedAt = 0;
    this.question = null;
    await this.#session.end();
    this.#panes.forget();
    if (found) await endOf(found);
  }

  /** Ends the client in our tmux session, else the one that a person opened. */
  async stop(): Promise<void> {
    await this.look();
    const byHand = this.pid === null ? this.byHand() : null;
    await this.end();
    if (!byHand) return;
    signalTo(byHand.pid, 'SIGTERM');
    await endOf(byHand);
  }

  /** The last lines of the terminal in which this client runs. */
  async screenOf(pid: number | null, count: number, options?: ScreenOptions): Promise<string> {
    const terminal = pid === null ? null : await this.terminalOf(pid);
    if (terminal) return lastLines(terminal.server, terminal.pane, count, options);
    throw new Refusal('unreachable', pid === null ? 'the session is not running' : 'no terminal');
  }

  async lines(count: number, options?: ScreenOptions): Promise<string | null> {
    const pane = await this.#session.pane();
    return pane && lastLines(this.#tmux, pane.id, count, options);
  }

  lastLine(): Promise<string> {
    return this.#session.lastLine();
  }
}

/** The panes of one tmux server. All sessions of this process look at them together. */
class SharedPanes {
  static readonly #servers = new Map<string, SharedPanes>();
  #last: { at: number; panes: Promise<ListedPane[]> } | null = null;

  constructor(readonly server: TmuxServer) {}

  static of(server: TmuxServer, env: Env): SharedPanes {
    const key = JSON.stringify([env['TMUX'], env['TMUX_TMPDIR'], env['PATH']]);
    const shared = this.#servers.get(key) ?? new SharedPanes(server);
    this.#servers.set(key, shared);
    return shared;
  }

  /** The panes now, or as of a look that is not older than `atMostMs`. */
  look(atMostMs: number): Promise<ListedPane[]> {
    const at = Date.now();
    if (this.#last && at - this.#last.at < atMostMs) return this.#last.panes;
    const last = { at, panes: panesOf(this.server) };
    this.#last = last;
    last.panes.catch(() => this.forget(last));
    return last.panes;
  }

  forget(last = this.#last): void {
    if (this.#last === last) this.#last = null;
  }
}

/** Waits until a process is gone, and kills it if that takes too long. */
export async function endOf(found: Found): Promise<void> {
  for (const end = Date.now() + END_MS; isSame(found) && Date.now() < end;) await Bun.sleep(POLL_MS);
  if (isSame(found)) process.kill(found.pid, 'SIGKILL');
}

function isSame({ pid, start }: Found): boolean {
  return isProcessAlive(pid) && startOf(pid) === start;
}

/** A client that runs in a terminal. */
export interface ClientProcess {
  /** The pid of the client. It may be a child of the pane's process. */
  pid: number;
  tty: string;
  /** Its current folder: the one in which it was started. */
  folder: string;
  /** Its command line. */
  words: readonly string[];
}

/** The windows of a client that were started in its folder. */
function windowsOf({ folder, isClient }: WindowOptions): ClientProcess[] {
  return (clientWindows(isClient) ?? []).filter((window) => window.folder === folder);
}

/** Every window of a client on this machine that this user may see; null where the system does not tell. */
export function clientWindows(isClient: WindowOptions['isClient']): ClientProcess[] | null {
  if (process.platform !== 'linux') return null;
  const all = readdirSync('/proc').flatMap((name) => {
    const tty = /^\d+$/.test(name) ? ttyOf(Number(name)) : null;
    return tty === null ? [] : (windowAt(Number(name), tty, isClient) ?? []);
  });
  // Between fork and exec a child of the client looks like a second client. On a busy machine that takes seconds.
  return all.filter(({ pid, tty }) => {
    const parent = parentOf(pid);
    return !all.some((one) => one.pid === parent && one.tty === tty);
  });
}

/** The shortest time between two scans of all processes. */
const SCAN_MS = 500;

/** Whether another window of a client runs in the folder of this one. Cheap enough to ask at each drawing of a screen. */
export class OtherWindows {
  #at = -Infinity;
  #isAny = false;

  constructor(
    readonly own: { pid: number; folder: string },
    readonly scan: () => readonly ClientProcess[] | null,
  ) {}

  get isAny(): boolean {
    const { pid, folder } = this.own;
    if (performance.now() - this.#at < SCAN_MS) return this.#isAny;
    this.#isAny = this.scan()?.some((one) => one.folder === folder && one.pid !== pid) ?? false;
    this.#at = performance.now();
    return this.#isAny;
  }
}

function windowAt(pid: number, tty: string, isClient: WindowOptions['isClient']): ClientProcess | null {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    const file = readlinkSync(`/proc/${pid}/exe`).replace(/ \(deleted\)$/, '');
    return isClient(words, file, pid) ? { pid, tty, folder: readlinkSync(`/proc/${pid}/cwd`), words } : null;
  } catch {
    // The process has ended, or belongs to another user.
    return null;
  }
}
