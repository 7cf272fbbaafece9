import { reasonOf, Refusal } from '../refusal.ts';
import type { ScreenOptions, SessionDriver, SessionState, SessionTarget } from '../ports/session.ts';
import type { SessionMessage, SessionStore, StoredPrompt } from '../ports/session-store.ts';
import type { AnsweredQuestions, AnswerEnd, AnswerRequest, PendingQuestions } from '../questions/questions.ts';
import { SessionWorker } from './worker.ts';
import { withLimit } from '../wait.ts';

/** What the control of sessions works with. */
export interface ControlDeps {
  store: SessionStore;
  /** Every session that is configured, read again at each call: other processes change it. */
  targets(): Promise<SessionTarget[]>;
  driver(target: SessionTarget): SessionDriver;
  /** Makes what was stored visible to those who read files. Awaited before any answer. */
  publish(): Promise<void>;
  /** A turn that a person began at the keyboard becomes history, too. */
  recordsTerminal(): Promise<boolean>;
  /** The user lets those who answer questions approve permissions and plans, too. Absent: never. */
  mayApprove?(): Promise<boolean>;
  now(): number;
  log(event: string, facts: Record<string, string | number | boolean>): void;
  /** Only tests give others. */
  limits?: Partial<ControlLimits>;
}

/** Times in ms. */
export interface ControlLimits {
  /** If the record of a quiet session is silent for so long, a prompt was not typed. */
  silenceMs: number;
  /** If the end of a turn is not recorded so long after the session became quiet, it does not come any more. */
  lostMs: number;
  /** The first pause after a prompt was left out; later ones are longer, up to four times. */
  retryMs: number;
  /** `send` waits so long for a session that runs. */
  sendMs: number;
  /** How often settings are read for sessions that were made or removed. */
  targetsMs: number;
  /** How long a state may take. */
  stateMs: number;
  /** How long `send` waits for a host that may not answer. */
  hostMs: number;
  /** How long `close` waits for a submission. */
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

/** Of each text in the queue. There may be many, and long ones. */
const QUEUE_CHARACTERS = 1000;

/** A prompt of somebody, for a session. */
export interface PromptRequest {
  session: string;
  text: string;
  from: 'human' | 'api';
  agent?: string;
  username?: string;
  raw?: boolean;
  /** The time (Unix ms) after which it is not typed, and nobody waits for its answer; null: it waits as long as it must. */
  deadline: number | null;
  /** Fields of its line in the history: a voice message, a photo. */
  fields?: Partial<SessionMessage>;
  /** Called with its id as soon as it is stored. */
  stored?: (id: number) => void;
}

export type Started = 'resumed' | 'fresh';

/**
 * How an ask or a send ends. `not_started`: the client could not be started. `unreachable`: its host does not answer, and nothing was typed. `withdrawn`: it was never typed. `timeout`: it was typed, and the
 * answer will be in the history. `stopped`: the client ended during the turn. `closed`: this program ends; the next one follows the prompt, whose message has this id.
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

/** What somebody who waits for a prompt is told. */
export type PromptUpdate = { outcome: 'submitted'; started?: Started } | PromptEnd;

/** How far a prompt is when `send` returns. */
export type PromptSent =
  | { outcome: 'sent'; id: number; status: 'queued' | 'submitted'; because?: string; started?: Started }
  | Extract<PromptEnd, { outcome: 'not_started' | 'unreachable' | 'failed' | 'stopped' | 'interrupted' }>;

/** The sessions of this user: what control, chats and commands do with them. Unknown names throw a Refusal `not_found`. */
export interface SessionControl {
  /** Every configured session and its state; one that does not answer within 1.5 s is `stopped`. */
  sessions(): Promise<(SessionTarget & { state: SessionState })[]>;
  /** Sends and waits for the answer to this very prompt. */
  ask(request: PromptRequest): Promise<PromptEnd>;
  /** Stores a prompt, starts the session if it must, and returns. */
  send(request: PromptRequest): Promise<PromptSent>;
  /** Ends the client and starts it again with its conversation. Calls at the same time share one start. Throws why it did not start. */
  restart(session: string): Promise<{ started: Started }>;
  /** Ends the client. Prompts that were not typed are withdrawn. */
  stop(session: string): Promise<void>;
  screen(session: string, lines: number, options?: ScreenOptions): Promise<string>;
  /** Saves a file in the folder of the session, also on its host, for its client to read. Its path there. */
  saveFile(session: string, name: string, bytes: Uint8Array): Promise<string>;
  /** What the session asks its user now, if it does; for 5 minutes from when it asked. */
  questions(session: string): Promise<PendingQuestions | null>;
  /** Answers one question of those that are open. What was chosen becomes history when the client has gone on with it. */
  answer(session: string, request: AnswerRequest): Promise<AnswerEnd>;
  /** The questions that were answered last through `answer`, since this program runs. */
  answered(session: string): Promise<AnsweredQuestions | null>;
  /** Prompts without an end, oldest first, with the beginning of their texts and the reason why they wait. */
  queue(session?: string): Promise<StoredPrompt[]>;
  /** Takes back a prompt that was not typed yet. False: too late. */
  cancel(id: number): Promise<boolean>;
  /**
   * Calls at once with the state of each session, and then at each change of status. `sessions` empty: all, also those made later. A state of
   * null: there is no such session now. Returns how to stop.
   */
  watch(sessions: readonly string[], changed: (session: string, state: SessionState | null) => void): () => void;
  /** Waiting asks end as `closed`; stored prompts are followed again at the next start. */
  close(): Promise<void>;
}

interface Watcher {
  names: ReadonlySet<string> | null;
  changed(session: string, state: SessionState | null): void;
  /** What it was told last. */
  told: Map<string, string>;
}

/** Opens the control of the configured sessions, and goes on with the prompts that the last one left. */
export function openControl(deps: ControlDeps): SessionControl {
  return new Control(deps);
}

class Control implements SessionControl {
  readonly #limits: ControlLimits;
  readonly #workers = new Map<string, SessionWorker>();
  /** Those of removed sessions that have work under way still. */
  readonly #closing = new Map<string, Promise<void>>();
  readonly #waiting = new Map<number, (news: PromptUpdate) => void>();
  readonly #watchers = new Set<Watcher>();
  #syncing: Promise<void> = Promise.resolve();
  #nextSync: Promise<void> | null = null;
  /** The settings were read at least once. */
  #isRead = false;
  #trouble = '';
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
    const { id, forget } = await this.#enqueue(request, (news) => {
      if (news.outcome !== 'submitted') resolve(news);
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
      let news: PromptUpdate | null = null;
      let isUp = false;
      while (news === null && !isUp) {
        news = await withLimit(promise, sendMs);
        const status = worker.state?.status ?? 'stopped';
        const isLate = this.deps.now() - began > (worker.state ? stateMs : hostMs);
        isUp = !worker.isStarting && (status !== 'stopped' || isLate);
      }
      return await this.#sent(id, worker, news);
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
    const watcher: Watcher = { names, changed, told: new Map() };
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
    for (const [id, hear] of this.#waiting) hear({ outcome: 'closed', id });
    await this.#syncing.catch(() => {});
    await Promise.all([...this.#closing.values(), ...[...this.#workers.values()].map((worker) => worker.close())]);
  }

  /** Stores a prompt. `hear` is told what becomes of it, from its first news on. */
  async #enqueue(request: PromptRequest, hear: (news: PromptUpdate) => void) {
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
    this.#waiting.set(id, hear);
    // It was removed meanwhile. A later session of that name must not get the prompt.
    if (this.#workers.get(session) !== worker) await this.#drop(id, 'withdrawn');
    request.stored?.(id);
    const forget = (): void => void this.#waiting.delete(id);
    // The worker may have ended it before we listened.
    const end = await this.#endOf(id);
    if (end) hear(end);
    if (this.#isClosed) hear({ outcome: 'closed', id });
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

  /** The time of an ask is over: what was not typed is withdrawn, and what was typed is followed without its caller. */
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

  async #sent(id: number, worker: SessionWorker, news: PromptUpdate | null): Promise<PromptSent> {
    const prompt = await this.deps.store.prompt(id);
    switch (news?.outcome) {
      case 'failed':
      case 'not_started':
      case 'unreachable':
      case 'stopped':
      case 'interrupted':
        return news;
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
        const { started } = news;
        return { outcome: 'sent', id, status: 'submitted', ...(started && { started }) };
      }
    }
  }

  async #worker(session: string): Promise<SessionWorker> {
    if (this.#isClosed) throw new Refusal('unreachable', 'the control of sessions ends; try again when it runs');
    await this.#sync();
    const worker = this.#workers.get(session);
    if (!worker) throw new Refusal('not_found', 'session not found');
    return worker;
  }

  async #poll(): Promise<void> {
    try {
      await this.#sync();
      this.#trouble = '';
    } catch (error) {
      const because = reasonOf(error);
      if (because !== this.#trouble) this.deps.log('settings_trouble', { because });
      this.#trouble = because;
    }
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.#poll(), this.#limits.targetsMs);
  }

  /** Reads the settings. A reading that has not begun yet serves all who ask before it does. */
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
      this.#closeBeside(name, worker);
      for (const watcher of this.#watchers) this.#show(watcher, name, null);
      isRemoved = true;
    }
    if (isRemoved) await this.#dropOrphans(targets);
    this.#isRead = true;
    for (const [name, target] of targets) {
      const worker = this.#workers.get(name);
      if (!worker) {
        // Two of one name at once could claim the same conversation.
        await this.#closing.get(name);
        this.#workers.set(name, this.#newWorker(target));
      } else if (JSON.stringify(worker.target) !== JSON.stringify(target)) {
        worker.target = target;
        worker.wake();
      }
    }
  }

  /** Nobody waits for the work that a removed session has under way. */
  #closeBeside(name: string, worker: SessionWorker): void {
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
      tell: (id, news) => this.#tell(id, news),
      stateChanged: (session, state) => {
        for (const watcher of this.#watchers) this.#show(watcher, session, state);
      },
    });
  }

  #tell(id: number, news: PromptUpdate): void {
    this.#waiting.get(id)?.(news);
  }

  #show(watcher: Watcher, session: string, state: SessionState | null): void {
    const isNamed = watcher.names?.has(session) ?? true;
    const text = state ? `${state.status} ${state.waitingFor ?? ''}` : '';
    if (!isNamed || watcher.told.get(session) === text) return;
    watcher.told.set(session, text);
    try {
      watcher.changed(session, state);
    } catch (error) {
      this.deps.log('watcher_trouble', { session, because: reasonOf(error) });
    }
  }

  /** Files that cannot be written must not keep an answer back. They are written later. */
  async #publish(): Promise<void> {
    try {
      await this.deps.publish();
    } catch (error) {
      this.deps.log('publish_trouble', { because: reasonOf(error) });
    }
  }
}
