import { reasonOf, Refusal } from '../refusal.ts';
import type { ScreenOptions, SessionDriver, SessionState, SessionTarget } from '../ports/session.ts';
import type { SessionMessage, SessionStore, StoredPrompt } from '../ports/session-store.ts';
import type { AnsweredQuestions, AnswerEnd, AnswerRequest, PendingQuestions } from '../questions/questions.ts';
import { SessionWorker } from './worker.ts';
import { withLimit } from '../wait.ts';

/** What session control needs from outside. */
export interface ControlDeps {
  store: SessionStore;
  /** All configured sessions. Each call reads the settings again, because other processes change them. */
  targets(): Promise<SessionTarget[]>;
  driver(target: SessionTarget): SessionDriver;
  /** Writes what was stored to the history files. Control awaits it before it returns an answer. */
  publish(): Promise<void>;
  /** Whether turns that a person starts at the keyboard become history too. */
  recordsTerminal(): Promise<boolean>;
  /** Whether the user allows callers of `answer` to approve permissions and plans too. Absent: no. */
  mayApprove?(): Promise<boolean>;
  now(): number;
  log(event: string, facts: Record<string, string | number | boolean>): void;
  /** Set only by tests. */
  limits?: Partial<ControlLimits>;
}

/** Times in ms. */
export interface ControlLimits {
  /** A prompt counts as not typed if the session was quiet for this long and its record does not have the prompt. */
  silenceMs: number;
  /** A turn counts as over if the session was quiet for this long and its record has no end of the turn. */
  lostMs: number;
  /** The first pause after the driver could not type a prompt. Later pauses are longer, up to four times this. */
  retryMs: number;
  /** How long `send` waits for a running session to take the prompt. */
  sendMs: number;
  /** How often the settings are read to find added and removed sessions. */
  targetsMs: number;
  /** How long reading the state of a session may take. */
  stateMs: number;
  /** How long `send` waits for the first state of a session: its host may not answer. */
  hostMs: number;
  /** How long `close` waits for an attempt in progress. */
  closeMs: number;
}

const LIMITS: ControlLimits = {
  silenceMs: 2000,
  lostMs: 10_000,
  retryMs: 250,
  sendMs: 250,
  targetsMs: 1000,
  stateMs: 1500,
  hostMs: 7000,
  closeMs: 1500,
};

/** How many characters of each text `queue` returns: there may be many long texts. */
const QUEUE_CHARACTERS = 1000;

/** A prompt that a person or a program gives to a session. */
export interface PromptRequest {
  session: string;
  text: string;
  from: 'human' | 'api';
  agent?: string;
  username?: string;
  raw?: boolean;
  /** The time (Unix ms) after which the prompt is not typed and its caller no longer waits for the answer. null: no deadline. */
  deadline: number | null;
  /** More fields for its line in the history, as for a voice message or a photo. */
  fields?: Partial<SessionMessage>;
  /** Called with the id of the prompt as soon as the prompt is stored. */
  stored?: (id: number) => void;
}

export type Started = 'resumed' | 'fresh';

/**
 * How a prompt ends for its caller. `not_started`: the client could not be started. `unreachable`: the host does not answer, and nothing was
 * typed. `withdrawn`: the prompt was never typed. `timeout`: the prompt was typed, and the answer will be in the history. `stopped`: the
 * client ended during the turn. `closed`: this process ends; the next one continues with the prompt, whose message has this id.
 */
export type PromptEnd =
  | { outcome: 'answered'; reply: SessionMessage; started?: Started }
  | { outcome: 'timeout' }
  | { outcome: 'withdrawn' }
  | { outcome: 'not_started'; because: string }
  | { outcome: 'unreachable'; because: string }
  | { outcome: 'failed'; because: string }
  | { outcome: 'interrupted' }
  | { outcome: 'stopped' }
  | { outcome: 'closed'; id: number };

/** What the caller of a prompt hears while it waits. */
export type PromptUpdate = { outcome: 'submitted'; started?: Started } | PromptEnd;

/** The state of a prompt when `send` returns. */
export type PromptSent =
  | { outcome: 'sent'; id: number; status: 'queued' | 'submitted'; because?: string; started?: Started }
  | Extract<PromptEnd, { outcome: 'not_started' | 'unreachable' | 'failed' | 'stopped' | 'interrupted' }>;

/** What the control API, chats and commands can do with this user's sessions. Unknown names throw a Refusal `not_found`. */
export interface SessionControl {
  /** All configured sessions and their states. A session whose state is not known within 1.5 s is `stopped`. */
  sessions(): Promise<(SessionTarget & { state: SessionState })[]>;
  /** Sends a prompt and waits for the answer to exactly this prompt. */
  ask(request: PromptRequest): Promise<PromptEnd>;
  /** Stores a prompt, starts the session if it is stopped, and returns without the answer. */
  send(request: PromptRequest): Promise<PromptSent>;
  /** Ends the client and starts it again with its conversation. Calls at the same time share one start. Throws if the client does not start. */
  restart(session: string): Promise<{ started: Started }>;
  /** Ends the client. Prompts that were not typed are withdrawn. */
  stop(session: string): Promise<void>;
  screen(session: string, lines: number, options?: ScreenOptions): Promise<string>;
  /** Saves a file for the client to read, in the folder of the session on the session's host. Returns its path there. */
  saveFile(session: string, name: string, bytes: Uint8Array): Promise<string>;
  /** The questions that the session asks its user now, or null. They are listed for 5 minutes after the session asked. */
  questions(session: string): Promise<PendingQuestions | null>;
  /** Answers one of the open questions. The choices become history when the client has continued with them. */
  answer(session: string, request: AnswerRequest): Promise<AnswerEnd>;
  /** The questions that were answered last through `answer` in this process. */
  answered(session: string): Promise<AnsweredQuestions | null>;
  /** Open prompts, oldest first, each with the beginning of its text and the reason why it waits. */
  queue(session?: string): Promise<StoredPrompt[]>;
  /** Withdraws a prompt that was not typed yet. False if it is too late. */
  cancel(id: number): Promise<boolean>;
  /**
   * Calls `changed` at once with the state of each named session, and then at each change of status. An empty list names all sessions, also
   * later ones. State null: this session does not exist now. Returns a function that stops the calls.
   */
  watch(sessions: readonly string[], changed: (session: string, state: SessionState | null) => void): () => void;
  /** Ends waiting calls as `closed`. The next process continues with the stored prompts. */
  close(): Promise<void>;
}

interface Watcher {
  names: ReadonlySet<string> | null;
  changed(session: string, state: SessionState | null): void;
  /** The status that the watcher last got, by session. */
  shown: Map<string, string>;
}

/** Opens control of the configured sessions, and continues with prompts that an earlier process left open. */
export function openControl(deps: ControlDeps): SessionControl {
  return new Control(deps);
}

class Control implements SessionControl {
  readonly #limits: ControlLimits;
  readonly #workers = new Map<string, SessionWorker>();
  /** Workers of removed sessions that are still closing, by session. */
  readonly #closing = new Map<string, Promise<void>>();
  /** Callers that wait for a prompt, by its id. */
  readonly #callers = new Map<number, (update: PromptUpdate) => void>();
  readonly #watchers = new Set<Watcher>();
  #syncing: Promise<void> = Promise.resolve();
  #nextSync: Promise<void> | null = null;
  /** The settings were read at least once. */
  #isRead = false;
  /** The last error of reading the settings. The same error is logged only once. */
  #lastError = '';
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor(readonly deps: ControlDeps) {
    this.#limits = { ...LIMITS, ...deps.limits };
    void this.#poll();
  }

  async sessions(): Promise<(SessionTarget & { state: SessionState })[]> {
    await this.#sync();
    const stopped: SessionState = { status: 'stopped' };
    return Promise.all(
      [...this.#workers.values()].map(async (worker) => {
        const state = await withLimit(
          worker.look().catch(() => null),
          this.#limits.stateMs,
        );
        return { ...worker.target, state: state ?? stopped };
      }),
    );
  }

  async ask(request: PromptRequest): Promise<PromptEnd> {
    const { promise, resolve } = Promise.withResolvers<PromptEnd>();
    const { id, forget } = await this.#enqueue(request, (update) => {
      if (update.outcome !== 'submitted') resolve(update);
    });
    try {
      if (request.deadline === null) return await promise;
      const left = Math.max(request.deadline - this.deps.now(), 0);
      return (await withLimit(promise, left)) ?? (await this.#expire(id));
    } finally {
      forget();
    }
  }

  async send(request: PromptRequest): Promise<PromptSent> {
    const { promise, resolve } = Promise.withResolvers<PromptUpdate>();
    const { id, worker, forget } = await this.#enqueue(request, resolve);
    try {
      const { stateMs, hostMs, sendMs } = this.#limits;
      const began = this.deps.now();
      let update: PromptUpdate | null = null;
      let isUp = false;
      while (update === null && !isUp) {
        update = await withLimit(promise, sendMs);
        const status = worker.state?.status ?? 'stopped';
        const isLate = this.deps.now() - began > (worker.state ? stateMs : hostMs);
        isUp = !worker.isStarting && (status !== 'stopped' || isLate);
      }
      return await this.#sent(id, worker, update);
    } finally {
      forget();
    }
  }

  async restart(session: string): Promise<{ started: Started }> {
    return (await this.#worker(session)).restart();
  }

  async stop(session: string): Promise<void> {
    await (await this.#worker(session)).stop();
  }

  async screen(session: string, lines: number, options?: ScreenOptions): Promise<string> {
    return (await this.#worker(session)).driver.screen(lines, options);
  }

  async saveFile(session: string, name: string, bytes: Uint8Array): Promise<string> {
    return (await this.#worker(session)).driver.saveFile(name, bytes);
  }

  async questions(session: string): Promise<PendingQuestions | null> {
    return (await this.#worker(session)).answers.pending();
  }

  async answer(session: string, request: AnswerRequest): Promise<AnswerEnd> {
    return (await this.#worker(session)).answers.answer(request);
  }

  async answered(session: string): Promise<AnsweredQuestions | null> {
    return (await this.#worker(session)).answers.last;
  }

  async queue(session?: string): Promise<StoredPrompt[]> {
    const open = await this.deps.store.open(session, QUEUE_CHARACTERS);
    return open.map((prompt) => {
      const because = this.#workers.get(prompt.session)?.reason ?? prompt.because;
      return prompt.state === 'queued' ? { ...prompt, because } : prompt;
    });
  }

  async cancel(id: number): Promise<boolean> {
    const isDone = await this.deps.store.end(id, 'withdrawn', 'cancelled');
    if (isDone) {
      await this.#publish();
      this.#tell(id, { outcome: 'withdrawn' });
    }
    return isDone;
  }

  watch(sessions: readonly string[], changed: Watcher['changed']): () => void {
    const names = sessions.length > 0 ? new Set(sessions) : null;
    const watcher: Watcher = { names, changed, shown: new Map() };
    this.#watchers.add(watcher);
    const first = (): void => {
      for (const [name, { state }] of this.#workers) if (state) this.#show(watcher, name, state);
      for (const name of names ?? []) if (!this.#workers.has(name)) this.#show(watcher, name, null);
    };
    this.#sync().then(first, (error: unknown) => this.deps.log('settings_trouble', { because: reasonOf(error) }));
    return () => void this.#watchers.delete(watcher);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#watchers.clear();
    for (const [id, notify] of this.#callers) notify({ outcome: 'closed', id });
    await this.#syncing.catch(() => {});
    await Promise.all([...this.#closing.values(), ...[...this.#workers.values()].map((worker) => worker.close())]);
  }

  /** Stores a prompt. `notify` gets every update of it. */
  async #enqueue(request: PromptRequest, notify: (update: PromptUpdate) => void) {
    const worker = await this.#worker(request.session);
    const { session, text, from, agent, username, raw = false, deadline, fields } = request;
    const at = this.deps.now();
    const line = {
      ...fields,
      session,
      text,
      from,
      ts: Math.floor(at / 1000),
      ...(agent && { agent }),
      ...(username && { username }),
    };
    const { id } = await this.deps.store.enqueue(line, { key: crypto.randomUUID(), raw, at, deadline });
    this.#callers.set(id, notify);
    // The session was removed meanwhile. A later session of that name must not get the prompt.
    if (this.#workers.get(session) !== worker) await this.#drop(id, 'withdrawn');
    request.stored?.(id);
    const forget = (): void => void this.#callers.delete(id);
    // The worker may have ended the prompt before the caller was registered.
    const end = await this.#endOf(id);
    if (end) notify(end);
    if (this.#isClosed) notify({ outcome: 'closed', id });
    worker.wake();
    await this.#publish();
    return { id, worker, forget };
  }

  async #endOf(id: number): Promise<PromptEnd | null> {
    const prompt = await this.deps.store.prompt(id);
    if (prompt?.state === 'withdrawn') return { outcome: 'withdrawn' };
    if (prompt?.state === 'failed') return { outcome: 'failed', because: prompt.because ?? '' };
    const reply = prompt?.state === 'answered' ? await this.deps.store.replyTo(id) : null;
    return reply && { outcome: 'answered', reply };
  }

  /** The deadline of `ask` has passed. A prompt that was not typed is withdrawn; the worker follows a typed one without its caller. */
  async #expire(id: number): Promise<PromptEnd> {
    try {
      const isWithdrawn = await this.deps.store.end(id, 'withdrawn', 'it was not typed in time');
      if (!isWithdrawn) return (await this.#endOf(id)) ?? { outcome: 'timeout' };
      await this.#publish();
      return { outcome: 'withdrawn' };
    } catch (error) {
      this.deps.log('ask_trouble', { id, because: reasonOf(error) });
      return { outcome: 'timeout' };
    }
  }

  async #sent(id: number, worker: SessionWorker, update: PromptUpdate | null): Promise<PromptSent> {
    const prompt = await this.deps.store.prompt(id);
    switch (update?.outcome) {
      case 'failed':
      case 'not_started':
      case 'unreachable':
      case 'stopped':
      case 'interrupted':
        return update;
      case 'withdrawn':
        return { outcome: 'failed', because: prompt?.because ?? 'withdrawn' };
      case undefined:
      case 'timeout':
      case 'closed': {
        const isQueued = prompt?.state === 'queued';
        const because = isQueued ? (worker.reason ?? prompt.because) : 'it is being typed';
        return { outcome: 'sent', id, status: 'queued', ...(because !== null && { because }) };
      }
      case 'submitted':
      case 'answered': {
        const { started } = update;
        return { outcome: 'sent', id, status: 'submitted', ...(started && { started }) };
      }
    }
  }

  async #worker(session: string): Promise<SessionWorker> {
    if (this.#isClosed) throw new Refusal('unreachable', 'session control is closing; try again when it runs');
    await this.#sync();
    const worker = this.#workers.get(session);
    if (!worker) throw new Refusal('not_found', 'session not found');
    return worker;
  }

  async #poll(): Promise<void> {
    try {
      await this.#sync();
      this.#lastError = '';
    } catch (error) {
      const because = reasonOf(error);
      if (because !== this.#lastError) this.deps.log('settings_trouble', { because });
      this.#lastError = because;
    }
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.#poll(), this.#limits.targetsMs);
  }

  /** Reads the settings again. All calls that arrive before the next read begins share that read. */
  #sync(): Promise<void> {
    this.#nextSync ??= this.#syncing
      .catch(() => {})
      .then(() => {
        this.#nextSync = null;
        return this.#syncNow();
      });
    this.#syncing = this.#nextSync;
    return this.#nextSync;
  }

  async #syncNow(): Promise<void> {
    const targets = new Map((await this.deps.targets()).map((target) => [target.name, target]));
    if (this.#isClosed) return;
    let isRemoved = !this.#isRead;
    for (const [name, worker] of this.#workers) {
      if (targets.has(name)) continue;
      this.#workers.delete(name);
      this.#closeInBackground(name, worker);
      for (const watcher of this.#watchers) this.#show(watcher, name, null);
      isRemoved = true;
    }
    if (isRemoved) await this.#dropOrphans(targets);
    this.#isRead = true;
    for (const [name, target] of targets) {
      const worker = this.#workers.get(name);
      if (!worker) {
        // Two workers of one name could claim the same conversation.
        await this.#closing.get(name);
        this.#workers.set(name, this.#newWorker(target));
      } else if (JSON.stringify(worker.target) !== JSON.stringify(target)) {
        worker.target = target;
        worker.wake();
      }
    }
  }

  /** Closes the worker of a removed session, without waiting for work in progress. */
  #closeInBackground(name: string, worker: SessionWorker): void {
    const closed = worker
      .close()
      .catch((error: unknown) => this.deps.log('session_trouble', { session: name, because: reasonOf(error) }))
      .finally(() => this.#closing.delete(name));
    this.#closing.set(name, closed);
  }

  /** A later session of the same name must not get the prompts of a removed one. */
  async #dropOrphans(targets: ReadonlyMap<string, SessionTarget>): Promise<void> {
    for (const { id, session, state } of await this.deps.store.open(undefined, 0)) {
      if (targets.has(session)) continue;
      await this.#drop(id, state === 'queued' ? 'withdrawn' : 'failed');
    }
  }

  async #drop(id: number, as: 'failed' | 'withdrawn'): Promise<void> {
    await this.deps.store.end(id, as, 'the session was removed');
    await this.#publish();
    this.#tell(id, { outcome: 'stopped' });
  }

  #newWorker(target: SessionTarget): SessionWorker {
    return new SessionWorker(target, {
      ...this.deps,
      limits: this.#limits,
      publish: () => this.#publish(),
      tell: (id, update) => this.#tell(id, update),
      stateChanged: (session, state) => {
        for (const watcher of this.#watchers) this.#show(watcher, session, state);
      },
    });
  }

  #tell(id: number, update: PromptUpdate): void {
    this.#callers.get(id)?.(update);
  }

  #show(watcher: Watcher, session: string, state: SessionState | null): void {
    const isNamed = watcher.names?.has(session) ?? true;
    const text = state ? `${state.status} ${state.waitingFor ?? ''}` : '';
    if (!isNamed || watcher.shown.get(session) === text) return;
    watcher.shown.set(session, text);
    try {
      watcher.changed(session, state);
    } catch (error) {
      this.deps.log('watcher_trouble', { session, because: reasonOf(error) });
    }
  }

  /** A history file that cannot be written must not hold back an answer. It is written later. */
  async #publish(): Promise<void> {
    try {
      await this.deps.publish();
    } catch (error) {
      this.deps.log('publish_trouble', { because: reasonOf(error) });
    }
  }
}
