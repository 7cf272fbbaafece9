import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Env } from '../../core/env.ts';
import type { MessageId } from '../../core/names.ts';
import type { LiveSession, LiveSessions, RecordedProof } from '../../core/ports/live-session.ts';
import type { Way } from '../../core/ports/way-in.ts';
import { hasLiveProcess } from '../../delivery/session-names.ts';
import { realPath } from '../../platform/files.ts';
import { parentOf, startOf, ttyOf } from '../../platform/process.ts';
import { clientWindows, type ClientProcess } from '../../sessions/client-window.ts';
import { FolderWatch } from '../../sessions/follow.ts';
import { RemoteError } from '../../wire/jsonrpc.ts';
import { rolloutPlaceAt, RolloutProof } from './proof.ts';
import { rolloutOf } from './rollout.ts';
import { CodexDaemon, codexHome, isThreadFree, stateOf } from './rpc.ts';
import type { Thread } from './rpc.ts';
import { isCodexWindow } from './state.ts';
import { SILENT_MS, TurnWay } from './turn-way.ts';

/** The daemon tells nobody that a window was closed. */
const TICK_MS = 2000;
const RECORD_MS = 100;
/** In this time the status of a thread tells that a turn begins. */
const BEGIN_MS = 300;
/** Records that are read on from where the last look ended. */
const MOST_READERS = 200;

/**
 * The running sessions of Codex 0.166: the user's threads that its daemon has loaded, in a folder where a window of Codex (its TUI) runs.
 * The daemon does not say which window shows which thread, and unloads one without a window only after a minute. So while a folder has
 * fewer windows than threads, as after `/new`, all its threads are uncertain. A window that was started with --no-daemon has no thread here.
 */
export class CodexLive implements LiveSessions {
  readonly #daemon: CodexDaemon;
  readonly #stops = new Set<() => void>();
  readonly #readers = new Map<string, RolloutProof>();
  /** Since when each thread is idle without a break (ms), as far as this process saw it. */
  readonly #freeSince = new Map<string, number>();
  #isClosed = false;

  constructor(
    readonly env: Env,
    readonly silentMs = SILENT_MS,
    readonly scan = clientWindows,
  ) {
    this.#daemon = CodexDaemon.at(codexHome(env));
    this.#stops.add(this.#daemon.listen(() => this.#look()));
  }

  async list(): Promise<LiveSession[]> {
    await this.#daemon.connect();
    this.#look();
    const threads = this.#threads();
    if (threads.length === 0) return [];
    const windows = this.#windows();
    return threads.flatMap((thread) => {
      const here = windows?.filter(({ folder }) => folder === thread.cwd);
      if (here?.length === 0) return [];
      const count = threads.filter(({ cwd }) => cwd === thread.cwd).length;
      const isUncertain = here !== undefined && here.length < count;
      const isOnly = here?.length === 1 && count === 1;
      return [
        {
          client: 'codex',
          id: thread.id,
          folder: thread.cwd,
          ...stateOf(thread),
          ...(isUncertain && { isUncertain }),
          ...(isOnly && processOf(here)),
        },
      ];
    });
  }

  watch(changed: () => void): () => void {
    // Codex writes many lines in a turn.
    let soon: ReturnType<typeof setTimeout> | undefined;
    const folders = new FolderWatch(() => (soon ??= setTimeout(() => ((soon = undefined), changed()), RECORD_MS)));
    let seen = this.#picture();
    const look = (): void => {
      // Codex makes the folder of a record with the first turn.
      folders.set([...new Set(this.#threads().flatMap(({ path }) => (path === null ? [] : [dirname(path)])))]);
      const now = this.#picture();
      if (now === seen) return;
      seen = now;
      changed();
    };
    look();
    const ignore = this.#daemon.listen(look);
    const timer = setInterval(look, TICK_MS);
    const stop = (): void => {
      ignore();
      clearInterval(timer);
      clearTimeout(soon);
      folders.close();
      this.#stops.delete(stop);
    };
    this.#stops.add(stop);
    return stop;
  }

  ways({ id, folder }: LiveSession): readonly Way[] {
    const hasWindow = (): boolean => this.#windows()?.some((window) => window.folder === folder) ?? true;
    return [new TurnWay(this.#daemon, id, hasWindow, this.silentMs)];
  }

  async proof(session: LiveSession, id: MessageId, since: number): Promise<RecordedProof> {
    await this.#daemon.connect();
    this.#look();
    const path = this.#daemon.threads.get(session.id)?.path ?? rolloutOf(this.#daemon.home, session.id);
    const recorded = () => (path === null ? null : this.#reader(path, id, since).read().of(id));
    let found = recorded();
    const isOver = found === null && (await this.#isOver(session.id, id));
    // It may have come into the record meanwhile.
    found ??= recorded();
    if (found === 'unknown') return { step: 'none', isOver: false };
    if (found?.step === 'accepted' && hasEnded(session) && !(await this.#mayHave(session.id)))
      return { step: 'none', isOver: true };
    return found ?? { step: 'none', isOver };
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const stop of this.#stops) stop();
    this.#daemon.release();
  }

  /**
   * Whether Codex cannot have this message, as far as its record does not say otherwise. What waits for a running turn is in the memory of
   * the daemon, and gone with the turn. The queue of a thread outlives the daemon, so without a daemon nobody knows.
   */
  async #isOver(thread: string, id: MessageId): Promise<boolean> {
    if (!this.#daemon.isConnected) return false;
    const since = this.#freeSince.get(thread);
    const isIdle = since !== undefined && performance.now() - since >= this.silentMs;
    try {
      if (!isIdle && (await this.#daemon.hasLoaded(thread))) return false;
      if ((await this.#daemon.queued(thread, id)) !== null) return false;
    } catch (error) {
      // Codex does not know the thread: it never had a turn, and is not loaded.
      return !isIdle && error instanceof RemoteError && /no rollout found/.test(error.message);
    }
    // It may have left the queue just now: then its turn begins.
    await Bun.sleep(BEGIN_MS);
    return this.#daemon.isConnected && this.#freeSince.get(thread) === since;
  }

  /** Whether a thread may still be in the memory of the daemon, which works on when a window ends, or of the next one. */
  async #mayHave(thread: string): Promise<boolean> {
    if (!this.#daemon.isConnected) return !this.#daemon.isDead();
    return this.#daemon.hasLoaded(thread).catch(() => true);
  }

  #reader(path: string, id: MessageId, since: number): RolloutProof {
    const key = JSON.stringify([path, id, since]);
    const reader = this.#readers.get(key) ?? new RolloutProof(path, rolloutPlaceAt(path, since), [id]);
    this.#readers.delete(key);
    this.#readers.set(key, reader);
    for (const oldest of this.#readers.keys()) if (this.#readers.size > MOST_READERS) this.#readers.delete(oldest);
    return reader;
  }

  #look(): void {
    const { threads } = this.#daemon;
    for (const id of this.#freeSince.keys()) if (!threads.has(id)) this.#freeSince.delete(id);
    for (const thread of threads.values()) {
      if (!isThreadFree(thread)) this.#freeSince.delete(thread.id);
      else if (!this.#freeSince.has(thread.id)) this.#freeSince.set(thread.id, performance.now());
    }
  }

  /** What the list is made of, to be compared. */
  #picture(): string {
    const threads = this.#threads();
    const windows = threads.length === 0 ? [] : this.#windows();
    return JSON.stringify([this.#daemon.isConnected, threads, windows]);
  }

  #threads(): Thread[] {
    return [...this.#daemon.threads.values()].filter(({ isUsers }) => isUsers);
  }

  /** The windows that the daemon of this home may serve, with the folder in which each works. Null where the system does not tell. */
  #windows(): ClientProcess[] | null {
    const windows = this.scan(isCodexWindow)?.filter((window) => this.#isServed(window));
    return windows?.map((window) => ({ ...window, folder: workFolder(window) })) ?? null;
  }

  #isServed({ pid, words }: ClientProcess): boolean {
    if (words.some((word) => /^--(no-daemon|remote)(=|$)/.test(word))) return false;
    try {
      const env = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
      const valueOf = (name: string): string | undefined =>
        env.find((entry) => entry.startsWith(`${name}=`))?.slice(name.length + 1);
      return codexHome({ HOME: valueOf('HOME'), CODEX_HOME: valueOf('CODEX_HOME') }) === this.#daemon.home;
    } catch {
      return false;
    }
  }
}

/** Whether the window that a message was handed to is known to be gone. */
function hasEnded({ pid, start }: LiveSession): boolean {
  return pid !== undefined && !hasLiveProcess({ pid, start: start ?? null });
}

/** Where a window works: `--cd` names another folder than the one in which it was started. */
function workFolder({ folder, words }: ClientProcess): string {
  const at = words.findIndex((word) => /^(-C|--cd)(=|$)/.test(word));
  const word = words[at] ?? '';
  const named = word.includes('=') ? word.slice(word.indexOf('=') + 1) : words[at + 1];
  return at < 0 || !named ? folder : realPath(resolve(folder, named));
}

/** The process that was started in the terminal: npm's script, if it started the program. */
function processOf([window]: readonly ClientProcess[]): Pick<LiveSession, 'pid' | 'start'> {
  if (!window) return {};
  const parent = parentOf(window.pid);
  const pid = ttyOf(parent) === window.tty && isLauncher(parent) ? parent : window.pid;
  const start = startOf(pid);
  return { pid, ...(start !== null && { start }) };
}

function isLauncher(pid: number): boolean {
  try {
    const [, script = ''] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return /\/codex(\.js)?$/.test(script);
  } catch {
    return false;
  }
}
