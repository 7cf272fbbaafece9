import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import type { Env } from '../core/env.ts';
import type { ScreenOptions } from '../core/ports/session.ts';
import { Refusal } from '../core/refusal.ts';
import { isProcessAlive, parentOf, signalTo, startedAt, startOf, ttyOf } from '../platform/process.ts';
import type { ReadComposer } from './terminal.ts';
import { isFree, lastLines, paneOn, panesOf, TmuxSession, tmuxNameOf, type ListedPane } from './tmux-session.ts';
import { type TmuxPane, TmuxServer } from './tmux.ts';

/** Each look at tmux starts a process. */
const LOOK_MS = 2000;
/** The same for a session without a window: what we start is looked at at once, and only a person starts another. */
const NO_WINDOW_LOOK_MS = 10_000;
const END_MS = 5000;
const POLL_MS = 50;

export interface Found {
  pid: number;
  /** With it a number that was used again is another process. */
  start: string | null;
}

export interface WindowOptions {
  /** Of the session. */
  name: string;
  /** Where the client is started, as the system names it. */
  folder: string;
  env: Env;
  /** A variable that says where the client keeps its files: the tmux server may have another. */
  variable: string;
  composer: ReadComposer;
  /** What an open dialog is about, as far as the client's screen tells. */
  question?: (lines: readonly string[]) => string;
  /** Whether a process is the client in a terminal: by the words that it was started with, the file that it runs, and its number. */
  isClient: (words: readonly string[], file: string, pid: number) => boolean;
  /** Another session has the same folder: a client that a person opened there may be meant by either. */
  sharesFolder?: boolean | undefined;
  /** The terminals that sessions have, by their device. */
  claims?: Map<string, string>;
}

/** The window of one session of a client: the process in its tmux session. */
export class ClientWindow {
  /** What the client asks its user on it: `dialog open: sign in`. Only looked for while nobody knows its conversation. */
  question: string | null = null;
  readonly #tmux: TmuxServer;
  readonly #panes: SharedPanes;
  readonly #session: TmuxSession;
  #found: Found | null = null;
  /** The terminals of other sessions, also of those that this process does not know. */
  #others = new Set<string>();
  #lookedAt = -Infinity;
  #startedAt = 0;
  #looking: Promise<void> | null = null;

  readonly #claims: Map<string, string>;
  /** The terminal that we hold in the claims. */
  #claimed: string | null = null;

  constructor(readonly options: WindowOptions) {
    const { name, env } = options;
    this.#tmux = new TmuxServer({ env });
    this.#panes = SharedPanes.of(this.#tmux, env);
    this.#session = new TmuxSession(this.#tmux, tmuxNameOf(name));
    this.#claims = options.claims ?? new Map<string, string>();
  }

  /** As of the last look. Costs next to nothing. */
  get pid(): number | null {
    if (this.#found && !isSame(this.#found)) {
      this.#found = null;
      this.#claim(null);
    }
    return this.#found?.pid ?? null;
  }

  /** When its process started, Unix ms: exactly if we started it, else a little too early; 0 where the system does not tell. */
  startOf(pid: number): number {
    return Math.max(startedAt(pid) ?? 0, pid === this.pid ? this.#startedAt : 0);
  }

  /** Looks now and then. The first look is waited for; what changes later is seen a little later. */
  async refresh(isKnown: () => boolean): Promise<void> {
    const isFirst = this.#lookedAt === -Infinity;
    const pauseMs = this.pid === null ? NO_WINDOW_LOOK_MS : LOOK_MS;
    if (Date.now() - this.#lookedAt < pauseMs || (this.pid !== null && isKnown())) return;
    const look = this.look(pauseMs).then(() => this.lookForQuestion(isKnown()));
    if (isFirst) await look;
    // A tmux that hangs does not say that the window is gone.
    else look.catch(() => 'the next look may do');
  }

  /** Before that nobody knows whose the windows in this folder are. */
  get isLookedAt(): boolean {
    return this.#lookedAt > -Infinity && this.#looking === null;
  }

  /** What another session saw serves as well, if it is not older than this. */
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
    // One that we start by a shell is that shell for a moment.
    if (!pane || (isFree(pane) && (pane.isDead || !pane.command.includes('exec ')))) return;
    const { tty } = pane;
    this.#claim(tty);
    // npm may start a client by a script, and a person by a shell.
    const pid = windowsOf(this.options).find((window) => window.tty === tty)?.pid ?? pane.pid;
    this.#found = { pid, start: startOf(pid) };
  }

  /** Holds this terminal and no other: the system gives the number of one that is gone to the next that is opened. */
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

  /** The clients that a person opened in this folder, in a terminal that no session has; null where the system does not tell. */
  elsewhere(): Found[] | null {
    if (process.platform !== 'linux') return null;
    const free = windowsOf(this.options).filter(({ tty }) => !this.#claims.has(tty) && !this.#others.has(tty));
    return free.map(({ pid }) => ({ pid, start: startOf(pid) }));
  }

  /** The only client that a person opened in this folder, if it can be no other session's. */
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

  /** Starts the client. Its screen stays if it ends, until `settle`. */
  async start(words: readonly string[]): Promise<void> {
    const { env, variable, folder } = this.options;
    const moved = env[variable];
    this.#startedAt = Date.now();
    const { pid } = await this.#session.start([...(moved ? [`${variable}=${moved}`] : []), ...words], folder);
    // Also while a shell runs there, which starts it.
    this.#found = { pid, start: startOf(pid) };
    await this.look();
  }

  async settle(): Promise<void> {
    await this.#session.forget();
    await this.look();
  }

  /** Ends it and returns when its process is gone. */
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

  /** As of now, or of a look that is not older than this. */
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

/** Waits until a process is gone, and ends it if that takes long. */
export async function endOf(found: Found): Promise<void> {
  for (const end = Date.now() + END_MS; isSame(found) && Date.now() < end;) await Bun.sleep(POLL_MS);
  if (isSame(found)) process.kill(found.pid, 'SIGKILL');
}

function isSame({ pid, start }: Found): boolean {
  return isProcessAlive(pid) && startOf(pid) === start;
}

/** A client that runs in a terminal. */
export interface ClientProcess {
  /** The program itself. npm may start it by a script. */
  pid: number;
  tty: string;
  /** Where it was started. */
  folder: string;
  /** As it was started. */
  words: readonly string[];
}

/** The windows of a client that were started in its folder. */
function windowsOf({ folder, isClient }: WindowOptions): ClientProcess[] {
  return (clientWindows(isClient) ?? []).filter((window) => window.folder === folder);
}

/** Every window of a client on this machine that we may look at; null where the system does not tell. */
export function clientWindows(isClient: WindowOptions['isClient']): ClientProcess[] | null {
  if (process.platform !== 'linux') return null;
  const all = readdirSync('/proc').flatMap((name) => {
    const tty = /^\d+$/.test(name) ? ttyOf(Number(name)) : null;
    return tty === null ? [] : (windowAt(Number(name), tty, isClient) ?? []);
  });
  // What a client starts is a second one of it until it has become its own program. On a busy machine that takes seconds.
  return all.filter(({ pid, tty }) => {
    const parent = parentOf(pid);
    return !all.some((one) => one.pid === parent && one.tty === tty);
  });
}

/** A look at all processes is not made more often than this. */
const SCAN_MS = 500;

/** Whether another window of a client runs in the folder of this one. It may be asked at each drawing of a screen. */
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
    // It ended meanwhile, or belongs to another user.
    return null;
  }
}
