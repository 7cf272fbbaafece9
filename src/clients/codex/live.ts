import { dirname } from 'node:path';
import type { Env } from '../../core/env.ts';
import type { MessageId } from '../../core/names.ts';
import type { LiveSession, LiveSessions, RecordedProof } from '../../core/ports/live-session.ts';
import type { Way } from '../../core/ports/way-in.ts';
import { hasLiveProcess } from '../../delivery/session-names.ts';
import { startedAt } from '../../platform/process.ts';
import { clientWindows } from '../../sessions/client-window.ts';
import { FolderWatch } from '../../sessions/follow.ts';
import { NoAnswer, RemoteError } from '../../wire/jsonrpc.ts';
import { rolloutLineAt, rolloutPlaceAt, RolloutProof } from './proof.ts';
import { isUsers, readRollout, rolloutOf } from './rollout.ts';
import type { RolloutPlace } from './rollout.ts';
import { CodexDaemon, codexHome, isThreadFree, isUnknownThread, stateOf } from './rpc.ts';
import type { Thread } from './rpc.ts';
import { SILENT_MS, TurnWay } from './turn-way.ts';
import { takeBack, WindowQueueWay } from './window-queue.ts';
import { codexWindows, hasLoadedThreads, loadedAt, processOf, programOf } from './windows.ts';
import type { CodexWindow } from './windows.ts';
import type { CodexPlace } from './queue.ts';

/** Poll interval: the daemon does not report that a window was closed. */
const TICK_MS = 2000;
const RECORD_MS = 100;
/** The daemon unloads an idle thread without a window after a minute. */
const UNLOAD_MS = 75_000;
/** How long the status of a thread may lag behind the begin of a turn. */
const BEGIN_MS = 300;
/** Time for an answer of the daemon. It is short, because all other sessions wait meanwhile. */
const QUICK_MS = 2000;
/** How long a daemon that answered too late is not asked again. */
const DEAF_MS = 10_000;
/** A connection that takes this long to fail means that the daemon is late. Without a daemon it fails at once. */
const LATE_MS = 1000;
/** The most records that are kept open to be read incrementally. */
const MOST_READERS = 200;

/**
 * The running sessions of Codex 0.166: the user's threads that a window of Codex (its TUI) shows. Parley finds the window of a thread in one of
 * three ways.
 *
 * By port: a window serves tools to each thread that it begins or resumes, and the daemon knows the port. The process that listens on the port
 * shows the last loaded of these threads. The daemon keeps a thread for a minute after `/new` or the end of its window.
 *
 * By arguments or folder: a thread that `parley run` began has no port, and a thread that was resumed within a turn has the port of an ended
 * window. Its window is the one that was started with its id, else a window of its folder that shows no other thread. If there are fewer such
 * windows than threads, the threads are uncertain.
 *
 * By lock: a window without the daemon runs its threads itself and holds their locks. It shows the thread that it loaded last.
 */
export class CodexLive implements LiveSessions {
  readonly #daemon: CodexDaemon;
  readonly #stops = new Set<() => void>();
  readonly #readers = new Map<string, RolloutProof>();
  /** Since when each thread has been idle without interruption (ms), as far as this process has seen. */
  readonly #freeSince = new Map<string, number>();
  /** The port of each thread's window. Valid as long as the thread has the same load time. */
  readonly #ports = new Map<string, { loaded: number; port: number | null }>();
  /** For threads in windows without the daemon: how far the record was read, and when the window loaded the thread (ms). */
  readonly #places = new Map<string, { loaded: number; place: RolloutPlace }>();
  /** Messages to remove from the queue of a dead daemon, and whether each is removed. */
  readonly #leaving = new Map<string, { thread: string; id: MessageId; isOut: boolean }>();
  #emptying: Promise<void> | null = null;
  readonly #closing = new AbortController();
  #deafUntil = 0;

  constructor(
    readonly env: Env,
    readonly silentMs = SILENT_MS,
    readonly scan = clientWindows,
  ) {
    this.#daemon = CodexDaemon.at(codexHome(env));
    this.#stops.add(this.#daemon.listen(() => this.#look()));
  }

  async list(): Promise<LiveSession[]> {
    await this.#connect();
    this.#look();
    await this.#learnPorts();
    return this.#sessions();
  }

  watch(changed: () => void): () => void {
    // Codex writes many lines in a turn, so changes are collected for `RECORD_MS`.
    let soon: ReturnType<typeof setTimeout> | undefined;
    const folders = new FolderWatch(() => (soon ??= setTimeout(() => ((soon = undefined), changed()), RECORD_MS)));
    let seen = this.#picture();
    const look = (): void => {
      // Codex creates the folder of a record with the first turn.
      const records = [...this.#threads(), ...[...this.#places.values()].map(({ place }) => place)];
      folders.set([...new Set(records.flatMap(({ path }) => (path === null ? [] : dirname(path))))]);
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

  ways({ id, status }: LiveSession): readonly Way[] {
    const hasWindow = (): boolean => this.#sessions().some((one) => one.id === id);
    const alone = this.#windowWithoutDaemon(id);
    // In a turn the hook is faster. Without a record Codex has no queue.
    if (alone && (status !== 'idle' || rolloutOf(this.#daemon.home, id) === null)) return [];
    if (alone) return [new WindowQueueWay(this.#place(alone), this.#daemon.home, id, hasWindow)];
    return [new TurnWay(this.#daemon, id, hasWindow, this.silentMs)];
  }

  async proof(session: LiveSession, id: MessageId, since: number): Promise<RecordedProof> {
    await this.#connect();
    this.#look();
    const path = this.#daemon.threads.get(session.id)?.path ?? rolloutOf(this.#daemon.home, session.id);
    const recorded = () => (path === null ? null : this.#reader(path, id, since).read().of(id));
    let found = recorded();
    const isOver = found === null && (await this.#isOver(session, id));
    // The record may have got the message meanwhile.
    found ??= recorded();
    if (found === 'unknown') return { step: 'none', isOver: false };
    if (found?.step === 'accepted' && hasEnded(session) && !(await this.#mayHave(session.id)))
      return { step: 'none', isOver: true };
    return found ?? { step: 'none', isOver };
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort();
    for (const stop of this.#stops) stop();
    this.#daemon.release();
    await this.#emptying;
  }

  /** Connects to the daemon, unless there is none or it was late within `DEAF_MS`. */
  async #connect(): Promise<void> {
    const began = performance.now();
    const isMade = began < this.#deafUntil || (await this.#daemon.connect());
    if (!isMade && performance.now() - began >= LATE_MS) this.#deafUntil = performance.now() + DEAF_MS;
  }

  /** Calls the daemon. Throws NoAnswer without a call if the daemon was late within `DEAF_MS`. */
  async #ask<T>(call: (daemon: CodexDaemon) => Promise<T>): Promise<T> {
    if (performance.now() < this.#deafUntil)
      throw new NoAnswer('the daemon of Codex did not answer in time; Parley asks it again in a few seconds');
    try {
      return await call(this.#daemon);
    } catch (error) {
      if (error instanceof NoAnswer) this.#deafUntil = performance.now() + DEAF_MS;
      throw error;
    }
  }

  /**
   * Is it certain that Codex does not have this message, given that the record does not show it? A message that waits for a running turn is in
   * the memory of the daemon and lost with the turn. The queue of a thread outlives daemon and window, so the message is removed from it first.
   */
  async #isOver(session: LiveSession, id: MessageId): Promise<boolean> {
    const { id: thread } = session;
    if (this.#windowWithoutDaemon(thread)) return false;
    if (!this.#daemon.isConnected) return hasEnded(session) && this.#daemon.isDead() && this.#hasLeft(thread, id);
    const since = this.#freeSince.get(thread);
    const isIdle = since !== undefined && performance.now() - since >= this.silentMs;
    try {
      if (!isIdle && (await this.#ask((daemon) => daemon.hasLoaded(thread, QUICK_MS)))) return false;
      if ((await this.#ask((daemon) => daemon.queued(thread, id, QUICK_MS))) !== null) return false;
    } catch (error) {
      // The thread never had a turn and is not loaded.
      return !isIdle && isUnknownThread(error);
    }
    // The message may just have left the queue: then its turn begins now.
    await Bun.sleep(BEGIN_MS);
    return this.#daemon.isConnected && this.#freeSince.get(thread) === since;
  }

  /** May a daemon still have this thread in memory? The daemon continues to work when a window ends, and a new daemon may load the thread. */
  async #mayHave(thread: string): Promise<boolean> {
    if (!this.#daemon.isConnected) return !this.#daemon.isDead();
    return this.#ask((daemon) => daemon.hasLoaded(thread, QUICK_MS)).catch(() => true);
  }

  /** Is the message certainly out of the queue? If not, starts its removal in the background, because that starts a process. */
  #hasLeft(thread: string, id: MessageId): boolean {
    const key = `${thread} ${id}`;
    if (this.#leaving.get(key)?.isOut) return this.#leaving.delete(key);
    if (performance.now() < this.#deafUntil) return false;
    if (!this.#leaving.has(key)) this.#leaving.set(key, { thread, id, isOut: false });
    this.#emptying ??= this.#empty().finally(() => (this.#emptying = null));
    return false;
  }

  async #empty(): Promise<void> {
    for (const [key, one] of this.#leaving) {
      const { signal } = this.#closing;
      if (one.isOut || signal.aborted) continue;
      one.isOut = (await takeBack(this.#place(), one.thread, [one.id], signal)) !== null;
      if (one.isOut) continue;
      this.#leaving.delete(key);
      this.#deafUntil = performance.now() + DEAF_MS;
    }
  }

  #reader(path: string, id: MessageId, since: number): RolloutProof {
    const key = JSON.stringify([path, id, since]);
    const reader = this.#readers.get(key) ?? new RolloutProof(path, rolloutPlaceAt(path, since), [id]);
    this.#readers.delete(key);
    this.#readers.set(key, reader);
    for (const oldest of this.#readers.keys()) if (this.#readers.size > MOST_READERS) this.#readers.delete(oldest);
    return reader;
  }

  /** Updates since when each thread is idle. */
  #look(): void {
    const { threads } = this.#daemon;
    for (const id of this.#freeSince.keys()) if (!threads.has(id)) this.#freeSince.delete(id);
    for (const thread of threads.values()) {
      if (!isThreadFree(thread)) this.#freeSince.delete(thread.id);
      else if (!this.#freeSince.has(thread.id)) this.#freeSince.set(thread.id, performance.now());
    }
  }

  /** Everything that the list depends on, as text to compare. */
  #picture(): string {
    return JSON.stringify([this.#daemon.isConnected, this.#threads(), this.#windows()]);
  }

  #threads(): Thread[] {
    return [...this.#daemon.threads.values()].filter(({ isUsers }) => isUsers);
  }

  #windows(): CodexWindow[] | null {
    const { home } = this.#daemon;
    return this.#threads().length > 0 || hasLoadedThreads(home) ? codexWindows(home, this.scan) : [];
  }

  /** The window that runs this thread without the daemon, if any. */
  #windowWithoutDaemon(thread: string): CodexWindow | undefined {
    return this.#windows()?.find(({ threads }) => threads.includes(thread));
  }

  #place(window?: CodexWindow): CodexPlace {
    const { home } = this.#daemon;
    return { program: programOf(window, this.env), cwd: home, env: { ...this.env, CODEX_HOME: home } };
  }

  /** The session of a window that runs without the daemon. */
  #sessionWithoutDaemon(window: CodexWindow): LiveSession[] {
    const { home } = this.#daemon;
    for (const id of window.threads) {
      const path = this.#places.get(id)?.place.path ?? rolloutOf(home, id);
      if (path !== null && !isUsers(path)) continue;
      const status = path !== null && this.#isInTurn(id, path, window) ? 'active' : 'idle';
      const mailComes = path === null ? 'with its first prompt' : 'by its hook, or when it is idle';
      return [{ client: 'codex', id, folder: window.folder, status, mailComes, ...processOf(window) }];
    }
    return [];
  }

  /** Does a turn run that began after this window loaded the thread? An earlier turn without an end in the record was killed. */
  #isInTurn(thread: string, path: string, { pid }: CodexWindow): boolean {
    const loaded = Math.max(loadedAt(this.#daemon.home, thread), startedAt(pid) ?? 0);
    const known = this.#places.get(thread);
    const from = known?.loaded === loaded ? known.place : { path, offset: rolloutLineAt(path, loaded) };
    const place = readRollout(from).next;
    this.#places.set(thread, { loaded, place });
    return place.turn !== undefined;
  }

  /** Asks for the ports of newly loaded threads. Resuming a thread loads it again. */
  async #learnPorts(): Promise<void> {
    const threads = this.#threads();
    for (const id of this.#ports.keys()) if (!threads.some((thread) => thread.id === id)) this.#ports.delete(id);
    await Promise.all(
      threads.map(async ({ id }) => {
        const loaded = loadedAt(this.#daemon.home, id);
        if (this.#ports.get(id)?.loaded === loaded) return;
        try {
          this.#ports.set(id, { loaded, port: await this.#ask((daemon) => daemon.windowPort(id, QUICK_MS)) });
        } catch (error) {
          // This version of Codex does not know the call. Any other error: the thread or the daemon is gone, and the next look asks again.
          if (error instanceof RemoteError && /unknown variant/.test(error.message))
            this.#ports.set(id, { loaded, port: null });
          else this.#ports.delete(id);
        }
      }),
    );
  }

  /**
   * May a window without a thread of its own show this one? A window loads the thread that it shows, unless a turn runs in it, so a thread that
   * was loaded before the window started may belong to another window. But the daemon keeps an idle thread without a window for only a minute:
   * a thread that has been idle for longer is shown by a window.
   */
  #mayShow(
    { pid }: CodexWindow,
    { thread, loaded, port }: { thread: Thread; loaded: number; port: number | null },
  ): boolean {
    if (port === null && (loaded === 0 || (startedAt(pid) ?? 0) <= loaded)) return true;
    const since = this.#freeSince.get(thread.id);
    return since !== undefined && performance.now() - since > UNLOAD_MS;
  }

  /** The sessions, without threads that were loaded after the last `#learnPorts`. */
  #sessions(): LiveSession[] {
    const known = this.#threads().flatMap((thread) => {
      const loaded = loadedAt(this.#daemon.home, thread.id);
      const entry = this.#ports.get(thread.id);
      return entry?.loaded === loaded ? [{ thread, loaded, port: entry.port }] : [];
    });
    const windows = this.#windows();
    if (windows === null) return known.map(({ thread }) => sessionOf(thread));
    const taken = new Set<Thread>();
    const shown = windows.flatMap((window) => {
      const [latest] = known
        .filter(({ port }) => port !== null && window.ports.includes(port))
        .toSorted((a, b) => b.loaded - a.loaded);
      const thread = (latest ?? known.find((one) => window.words.includes(one.thread.id)))?.thread;
      if (!thread || isWithoutDaemon(window) || taken.has(thread)) return [];
      taken.add(thread);
      return [{ window, thread }];
    });
    const others = windows.filter((window) => !isWithoutDaemon(window) && !shown.some((one) => one.window === window));
    const isServed = (port: number | null): boolean =>
      port !== null && windows.some(({ ports }) => ports.includes(port));
    const unassigned = known.flatMap((one) => {
      if (isServed(one.port) || taken.has(one.thread)) return [];
      const here = others.filter((window) => window.folder === one.thread.cwd && this.#mayShow(window, one));
      return here.length === 0 ? [] : [{ ...one, here }];
    });
    return [
      ...shown.map(({ window, thread }) => ({ ...sessionOf(thread), ...processOf(window) })),
      ...unassigned.map(({ thread, here: [window, ...more] }) => {
        const count = unassigned.filter((one) => one.thread.cwd === thread.cwd).length;
        const isUncertain = more.length + 1 < count;
        const isOnly = window && more.length === 0 && count === 1;
        return { ...sessionOf(thread), ...(isUncertain && { isUncertain }), ...(isOnly && processOf(window)) };
      }),
      ...windows.flatMap((window) => this.#sessionWithoutDaemon(window)),
    ];
  }
}

function sessionOf(thread: Thread): LiveSession {
  return { client: 'codex', id: thread.id, folder: thread.cwd, ...stateOf(thread) };
}

function isWithoutDaemon({ threads, words }: CodexWindow): boolean {
  return threads.length > 0 || words.includes('--no-daemon');
}

/** Is the window that got the message certainly gone? */
function hasEnded({ pid, start }: LiveSession): boolean {
  return pid !== undefined && !hasLiveProcess({ pid, start: start ?? null });
}
