import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Env } from '../../core/env.ts';
import type {
  Prompt,
  RecordPlace,
  ScreenOptions,
  SessionDriver,
  SessionState,
  SessionTarget,
  Submission,
  TurnEvent,
} from '../../core/ports/session.ts';
import { saveClientFile } from '../../sessions/client-files.ts';
import { reasonOf, Refusal } from '../../core/refusal.ts';
import { realPath } from '../../platform/files.ts';
import { signalTo } from '../../platform/process.ts';
import { ClientWindow, endOf } from '../../sessions/client-window.ts';
import { FolderWatch } from '../../sessions/follow.ts';
import { RemoteError, RPC } from '../../wire/jsonrpc.ts';
import { CodexQuestions } from './questions.ts';
import { plainPrompt } from '../plain-prompt.ts';
import { cutOff, endOfRollout, newestConversation, placeIn, readRollout, rolloutOf } from './rollout.ts';
import type { RolloutPlace } from './rollout.ts';
import { CodexDaemon, codexHome, isThreadFree, stateOf } from './rpc.ts';
import type { Thread } from './rpc.ts';
import { codexComposer, codexQuestion, isCodexWindow } from './state.ts';

const TICK_MS = 1000;
/** How long to wait after the last write to a record before a turn without an end counts as cut off. */
const SETTLED_MS = 1500;
const POLL_MS = 100;
/** If a second conversation begins within this time, it is unknown which one is ours. */
const RIVAL_MS = 300;
/** When a window opens a loaded conversation, Codex loads it again, unless it is open elsewhere. After this time it counts as opened anyway. */
const ATTACHED_MS = 3000;
const SILENT = 'Codex did not answer';

/**
 * A session of Codex 0.166. Its conversation is a thread of Codex's daemon. Its window (the TUI) and Parley are clients of that daemon.
 *
 * The thread of the session is the last one, if it is loaded. Else, if the window lives, it is the only loaded thread of the folder that no other
 * session has, because the user began or resumed another thread there. `start` knows the thread exactly: it resumes by id, or takes the thread
 * that was not loaded in this folder before. Only one start runs at a time.
 *
 * The session runs while its window lives: the process in our pane, or a Codex in a terminal in that folder. The daemon keeps the thread for
 * another minute and finishes a running turn; until then the session is `active`.
 */
export class CodexSession implements SessionDriver {
  readonly #daemon: CodexDaemon;
  readonly #window: ClientWindow;
  readonly #folder: string;
  readonly questions: CodexQuestions;
  #isStarting = false;
  #thread: string | null;
  #record: { id: string; path: string | null } | null = null;
  /** The end of the record at the time when the thread became ours. */
  #from: RolloutPlace | null = null;
  /** Prompts that may still be in Codex's queue: their threads by queue id. */
  readonly #queued = new Map<string, string>();
  #stopNudging: (() => void) | null = null;
  readonly #stops = new Set<() => void>();
  #isClosed = false;

  constructor(
    readonly target: SessionTarget,
    readonly env: Env,
  ) {
    this.#daemon = CodexDaemon.at(codexHome(env));
    this.#folder = realPath(target.folder);
    this.#window = new ClientWindow({
      name: target.name,
      folder: this.#folder,
      env,
      variable: 'CODEX_HOME',
      composer: codexComposer,
      question: codexQuestion,
      isClient: isCodexWindow,
      claims: this.#daemon.claims,
    });
    this.questions = new CodexQuestions(this.#daemon, () => this.#waitingThread());
    this.#thread = target.conversation;
    if (target.conversation !== null) this.#claim(target.conversation);
  }

  async state(): Promise<SessionState> {
    const isConnected = await this.#daemon.connect();
    await this.#window.refresh(() => this.#current() !== null);
    const thread = this.#current();
    const { pid } = this.#window;
    const conversation = thread?.id ?? this.#thread;
    const known = { ...(conversation !== null && { conversation }), ...(pid !== null && { pid }) };
    if (this.#isStarting) return { ...this.#beginning(), ...known };
    const isRunning = pid !== null || (thread !== null && this.#isByHand());
    if (!isRunning && (thread === null || isThreadFree(thread))) return { status: 'stopped', ...known };
    // Codex starts its daemon only after the user has signed in.
    if (thread === null && this.#window.question !== null) return { ...this.#beginning(), ...known };
    if (!isConnected) return { status: this.#daemon.isDead() ? 'stopped' : 'starting', ...known };
    if (thread === null) return { ...this.#beginning(), ...known };
    return { ...stateOf(thread), ...known };
  }

  watch(changed: () => void): () => void {
    const folders = new FolderWatch(changed);
    const look = (): void => {
      const path = this.#recordPath();
      folders.set(path === null ? [] : [dirname(path)]);
      changed();
    };
    const ignored = this.#daemon.listen((thread) => {
      if (thread === null || this.#current()?.id === thread || this.#thread === thread) look();
    });
    const timer = setInterval(look, TICK_MS);
    const stop = (): void => {
      ignored();
      clearInterval(timer);
      folders.close();
      this.#stops.delete(stop);
    };
    this.#stops.add(stop);
    return stop;
  }

  prepare(text: string, options: { raw?: boolean } = {}): string {
    return plainPrompt('Codex', text, options);
  }

  async place(): Promise<RecordPlace> {
    const path = this.#recordPath();
    return JSON.stringify(path === null ? { path: '', offset: 0 } : endOfRollout(path));
  }

  async events(since: RecordPlace): Promise<{ events: TurnEvent[]; next: RecordPlace }> {
    const path = this.#recordPath();
    const place = placeIn(since) ?? (path === null ? { path: '', offset: 0 } : endOfRollout(path));
    const { events, next: reached } = readRollout(place);
    const isCutOff = reached.turn !== undefined && (await this.#isCutOff(reached));
    if (isCutOff) events.push(cutOff(reached, Date.now()));
    const next: RolloutPlace = isCutOff ? { path: reached.path, offset: reached.offset } : reached;
    if (path === null || path === next.path || next.turn !== undefined) return { events, next: JSON.stringify(next) };
    const more = readRollout(this.#from?.path === path ? this.#from : endOfRollout(path));
    return { events: [...events, ...more.events], next: JSON.stringify(more.next) };
  }

  isOurs(event: TurnEvent, prompt: Prompt): boolean {
    return event.kind === 'prompt' && event.key === prompt.key;
  }

  async submit(prompt: Prompt, signal: AbortSignal): Promise<Submission> {
    const { status } = await this.state();
    const thread = this.#current();
    if (status !== 'idle' || !thread) return { outcome: 'left', because: `Codex is ${status}`, retry: true };
    // An earlier attempt may have queued the prompt.
    const item = await this.#daemon.queued(thread.id, prompt.key).catch(failed);
    if (item instanceof Error) return { outcome: 'left', because: reasonOf(item) || SILENT, retry: true };
    if (signal.aborted) return { outcome: 'left', because: 'the prompt was taken back', retry: false };
    const added = (): Promise<string> => this.#daemon.enqueue(thread.id, prompt.key, prompt.text);
    const queued = item ?? (await orAborted(added(), signal).catch(failed));
    if (queued instanceof RemoteError) return { outcome: 'left', because: queued.message, retry: !isFinal(queued) };
    if (queued instanceof Error) return { outcome: 'unknown', because: reasonOf(queued) || SILENT };
    this.#queued.set(queued, thread.id);
    this.#stopNudging ??= this.#daemon.listen((changed) => void this.#nudge(changed));
    await this.#nudge(thread.id);
    return { outcome: 'submitted' };
  }

  async takeBack({ key }: Prompt): Promise<void> {
    const thread = this.#current()?.id ?? this.#thread;
    if (thread === null) return;
    try {
      const item = await this.#daemon.queued(thread, key);
      if (item === null) return;
      this.#queued.delete(item);
      await this.#daemon.dequeue(thread, item);
    } catch (error) {
      // The prompt has begun, or the thread is not loaded: there is nothing to remove.
      if (!(error instanceof RemoteError)) throw error;
    }
  }

  async start(): Promise<{ started: 'resumed' | 'fresh' }> {
    const unfit = this.target.command.find((word) => /^--(no-daemon|remote)(=|$)/.test(word));
    if (unfit !== undefined)
      throw new Refusal('bad_config', `Parley reaches Codex only through its daemon; remove ${unfit} from the flags`);
    return this.#daemon.exclusively(async () => {
      this.#isStarting = true;
      try {
        return await this.#start();
      } finally {
        this.#isStarting = false;
      }
    });
  }

  async stop(): Promise<void> {
    await this.#window.look();
    const thread = this.#current();
    const byHand = this.#window.pid === null && thread ? (this.#window.elsewhere() ?? []) : [];
    if (byHand.length > 1 || (byHand.length === 1 && this.#inFolder().length > 1))
      throw new Refusal('ambiguous', 'several windows of Codex run in this folder; end the right one by hand');
    // Without a window Codex would continue the turn.
    if (thread && !isThreadFree(thread)) await this.#daemon.interrupt(thread.id).catch(() => 'it has ended');
    await this.#window.end();
    for (const window of byHand) {
      signalTo(window.pid, 'SIGTERM');
      await endOf(window);
    }
  }

  async screen(lines: number, options?: ScreenOptions): Promise<string> {
    const text = await this.#window.lines(lines, options);
    if (text === null) throw new Refusal('not_found', 'no terminal');
    return text;
  }

  async saveFile(name: string, bytes: Uint8Array, offset?: number): Promise<string> {
    return saveClientFile(this.target.folder, name, bytes, offset);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#stopNudging?.();
    this.questions.close();
    for (const stop of this.#stops) stop();
    for (const [key, name] of this.#daemon.claims) if (name === this.target.name) this.#daemon.claims.delete(key);
    this.#daemon.release();
  }

  async #start(): Promise<{ started: 'resumed' | 'fresh' }> {
    const { threads } = this.#daemon;
    await this.#daemon.connect();
    await this.#window.look();
    if (this.#window.pid !== null) {
      if (this.#daemon.isConnected && this.#bound()) return { started: 'resumed' };
      await this.#window.lookForQuestion(false);
      // An earlier start is still waiting for the user's answer to a question.
      if (this.#window.question !== null) return { started: 'resumed' };
      // The window has lost its daemon.
      await this.#window.end();
    }
    const before = new Set(threads.keys());
    const id = this.#resumable();
    const began = Date.now();
    let isAttached = id === null || !before.has(id);
    const ignored = this.#daemon.listen((changed) => {
      isAttached ||= changed === id && !threads.has(changed ?? '');
    });
    const resumed = (): Thread | null => {
      isAttached ||= Date.now() - began > ATTACHED_MS;
      return isAttached ? (threads.get(id ?? '') ?? null) : null;
    };
    try {
      const words = [...this.target.command, ...(id === null ? [] : ['resume', id])];
      await this.#window.start(words);
      const find = id === null ? () => this.#newThread(before) : resumed;
      const thread = await this.#ready(began + this.target.startTimeoutMs, find);
      if (thread) this.#adopt(thread, id === null);
      else if (id !== null) {
        this.#thread = id;
        this.#claim(id);
      }
      await this.#window.settle();
      return { started: id === null ? 'fresh' : 'resumed' };
    } finally {
      ignored();
    }
  }

  /** Waits for the thread of the window that was just started. Null if the window first asks its user a question. */
  async #ready(deadline: number, find: () => Thread | null | Promise<Thread | null>): Promise<Thread | null> {
    for (let at = Date.now(), seen = at; ; at = Date.now()) {
      if (this.#window.pid === null) {
        const line = await this.#window.lastLine();
        await this.#window.end();
        throw new Refusal('outcome_unknown', line === '' ? 'Codex ended at once' : line);
      }
      await this.#daemon.connect();
      const thread = await find();
      if (thread) return thread;
      const isLate = at > deadline;
      if (isLate || at - seen > TICK_MS) {
        seen = at;
        await this.#window.lookForQuestion(false);
        if (this.#window.question !== null) return null;
      }
      if (isLate) throw await this.#late();
      await Bun.sleep(POLL_MS);
    }
  }

  /** The error for a late start. The window stays open, so that the user can see what is wrong. */
  async #late(): Promise<Refusal> {
    const seconds = Math.round(this.target.startTimeoutMs / 1000);
    return new Refusal('outcome_unknown', `Codex was not ready in ${seconds} s: ${await this.#window.lastLine()}`);
  }

  /** The thread that was loaded in this folder after `before`; null if there is none yet. */
  async #newThread(before: ReadonlySet<string>): Promise<Thread | null> {
    // These options change the folder of the thread.
    const isMoved = this.target.command.some((word) => /^(-C|--cd|--worktree)/.test(word));
    const found = (): Thread[] =>
      this.#freeThreads(isMoved).filter((thread) => !before.has(thread.id) && !this.#daemon.claims.has(thread.id));
    if (found().length === 0) return null;
    await Bun.sleep(RIVAL_MS);
    const [first, ...others] = found();
    if (others.length === 0) return first ?? null;
    await this.#window.end();
    throw new Refusal('busy', 'another Codex began in this folder at the same moment; start it again');
  }

  /** The conversation to resume: that of this session, else the newest of its folder that no session has and that is not loaded. */
  #resumable(): string | null {
    const { home, claims, threads } = this.#daemon;
    if (this.#thread !== null) return rolloutOf(home, this.#thread) === null ? null : this.#thread;
    if (this.target.sharesFolder === true) return null;
    return newestConversation(home, this.#folder, (id) => !claims.has(id) && !threads.has(id));
  }

  /** The current thread if it waits for its user and has a window. Without a window, joining the thread would keep it loaded. */
  async #waitingThread(): Promise<Thread | null> {
    const { status, pid } = await this.state();
    const isShown = pid !== undefined || this.#isByHand();
    return status === 'waiting' && isShown ? this.#current() : null;
  }

  /** The thread that this session has now. */
  #current(): Thread | null {
    const bound = this.#bound();
    if (bound || this.#daemon.isStarting || !this.#window.isLookedAt) return bound;
    // The window still shows a question and has no thread, so a new thread is not ours.
    if (this.#window.question !== null) return null;
    const free = this.#freeThreads();
    const [only] = free;
    if (!only || free.length > 1) return null;
    if (this.#window.pid === null && (this.target.sharesFolder === true || !this.#isByHand())) return null;
    this.#adopt(only, false);
    return only;
  }

  #bound(): Thread | null {
    return this.#daemon.threads.get(this.#thread ?? '') ?? null;
  }

  /** The threads of this folder that no other session has. */
  #freeThreads(isAnywhere = false): Thread[] {
    const { name } = this.target;
    return this.#inFolder(isAnywhere).filter(({ id }) => (this.#daemon.claims.get(id) ?? name) === name);
  }

  #inFolder(isAnywhere = false): Thread[] {
    const all = [...this.#daemon.threads.values()];
    return all.filter(({ cwd, isUsers }) => isUsers && (isAnywhere || cwd === this.#folder));
  }

  #adopt(thread: Thread, isNew: boolean): void {
    const { claims } = this.#daemon;
    const before = this.#thread;
    if (before !== null && claims.get(before) === this.target.name) claims.delete(before);
    this.#thread = thread.id;
    this.#claim(thread.id);
    this.#from = thread.path === null ? null : isNew ? { path: thread.path, offset: 0 } : endOfRollout(thread.path);
  }

  #claim(key: string): void {
    if (!this.#daemon.claims.has(key)) this.#daemon.claims.set(key, this.target.name);
  }

  /** Has a person opened Codex in this folder? If the system cannot tell, yes: the caller then relies on a loaded thread. */
  #isByHand(): boolean {
    return (this.#window.elsewhere() ?? [true]).length > 0;
  }

  /** The state of a window whose thread is not known yet. If it shows a question, the user must answer it. */
  #beginning(): SessionState {
    const { question } = this.#window;
    return question === null ? { status: 'starting' } : { status: 'waiting', waitingFor: question };
  }

  /** The record of the conversation. Searched for only once, because the record of a conversation that is not loaded does not change. */
  #recordPath(): string | null {
    const thread = this.#current();
    if (thread) this.#record = { id: thread.id, path: thread.path };
    else if (this.#thread === null) this.#record = null;
    else if (this.#record?.id !== this.#thread)
      this.#record = { id: this.#thread, path: rolloutOf(this.#daemon.home, this.#thread) };
    return this.#record?.path ?? null;
  }

  /** Is the turn that is open in the record certainly not running any more? */
  async #isCutOff({ path }: RolloutPlace): Promise<boolean> {
    const written = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
    if (Date.now() - written < SETTLED_MS) return false;
    if (!(await this.#daemon.connect())) return this.#daemon.isDead();
    const thread = [...this.#daemon.threads.values()].find((one) => one.path === path);
    return !thread || isThreadFree(thread);
  }

  /** Begins queued prompts, because Codex does not begin them after an interrupt. If a turn runs, its end calls this again. */
  async #nudge(changed: string | null): Promise<void> {
    for (const [id, threadId] of this.#queued) {
      const thread = this.#daemon.threads.get(threadId);
      if (threadId !== changed || (thread && !isThreadFree(thread))) continue;
      if (!(await this.#daemon.begin(threadId, id))) return;
      this.#queued.delete(id);
    }
  }
}

/** Codex would also refuse this prompt later. */
function isFinal({ code }: RemoteError): boolean {
  return code === RPC.params || code === RPC.invalid;
}

function failed(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

async function orAborted<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(new Error('Parley stopped before Codex answered'));
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([answer, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
