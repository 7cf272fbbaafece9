import { SessionAnswers } from '../questions/answers.ts';
import { Wakeup, withLimit } from '../wait.ts';
import type { StoredPrompt } from '../ports/session-store.ts';
import { HostUnreachable } from '../ports/session.ts';
import type { SessionDriver, SessionState, SessionTarget, TurnEvent } from '../ports/session.ts';
import { reasonOf } from '../refusal.ts';
import { SessionClient } from './client.ts';
import type { ControlDeps, ControlLimits, PromptEnd, PromptUpdate, Started } from './control.ts';
import { PromptQueue } from './queue.ts';
import { RecordReader } from './record-reader.ts';
import { TurnWatch } from './turn-watch.ts';

export interface WorkerDeps extends Omit<ControlDeps, 'targets' | 'limits'> {
  limits: ControlLimits;
  /** Tells the caller that waits for this prompt. */
  tell(id: number, update: PromptUpdate): void;
  stateChanged(session: string, state: SessionState): void;
}

/** The prompt that may be in the client now. */
interface Current {
  prompt: StoredPrompt;
  /** The text as the driver prepared it. */
  text: string;
  turn: string | null;
  /** Only the record can tell whether the prompt was typed. */
  isUnknown: boolean;
  /** The prompt left the composer, so it is not typed again. */
  isTaken?: boolean;
  /** The client process that may have the prompt. */
  pid?: number | undefined;
}

/** How often a prompt is tried that may have been typed but is not in the record. Also how often a client is started that takes no prompt. */
const MOST_TRIES = 3;
/** The pause after an error of the store or the driver. */
const ERROR_PAUSE_MS = 1000;
const ENDS_AT_ONCE = 'the client ends as soon as it is started';

/**
 * Gives one session its prompts one at a time, oldest first, and stores the answers.
 *
 * queued → submitting → submitted → answered, or failed; queued → withdrawn.
 *
 * `queued`: nothing was typed. When the session is idle, the worker begins with the oldest prompt. It starts a stopped session first; if the
 * start fails, all queued prompts fail. If the driver cannot type because of a dialog, a draft or a busy client, the prompt is queued again
 * with the reason. After a crash the prompt still waits in the store.
 *
 * `submitting`: the state is committed together with the place where the record ended; then the driver gets the prompt. After a crash, or
 * if the driver returns `unknown`, nobody knows whether the prompt was typed. The record after that place decides: if it has the prompt, the
 * prompt is `submitted`. If the session is quiet for `silenceMs` and the record has nothing, the driver tries again. The prompt stays
 * `submitting` meanwhile, because its text may be in the composer: the retry then presses the missing Enter, and the prompt is never
 * reported as withdrawn. If the client has ended, its composer is gone too, and the prompt is queued again. The driver types only into an
 * empty composer, so a text that was left there is never joined to the next prompt.
 *
 * `submitted`: the client has the prompt. The end event of its turn decides: `answered`, or `failed` if the turn was interrupted or failed,
 * or if the client stopped. After a crash the next worker reads the record from the stored place and finds the same end.
 *
 * `answered`, `failed` and `withdrawn` are final. Each is committed together with its line of the history. If a prompt appears in the record
 * after it failed because no turn began, its turn does not count as a person's, and its answer is stored as the answer to the prompt.
 */
export class SessionWorker {
  readonly #wakeup = new Wakeup();
  readonly #record: RecordReader;
  readonly #queue: PromptQueue;
  readonly #client: SessionClient;
  readonly #watched: TurnWatch;
  /** The questions of the session, and the answers to them. */
  readonly answers: SessionAnswers;
  #state: SessionState | null = null;
  /** Since when the session has been idle or stopped without a new event in its record. */
  #quietSince = 0;
  #current: Current | null = null;
  #isLoaded = false;
  #starting: Promise<{ started: Started }> | null = null;
  readonly #tries = new Map<number, number>();
  /** Starts of the client since it last took a prompt. */
  #startsWithoutPrompt = 0;
  /** The last error of the loop. The same error is logged only once. */
  #lastError = '';
  /** The time before which no prompt is typed. */
  #notBefore = 0;
  #pauseMs = 0;
  #lastAction: Promise<unknown> = Promise.resolve();
  #isClosing = false;
  /** The store may be closed by now. */
  #isClosed = false;
  readonly #loop: Promise<void>;

  constructor(
    public target: SessionTarget,
    readonly deps: WorkerDeps,
  ) {
    this.#record = new RecordReader(target.name, deps);
    this.#watched = new TurnWatch((state) => deps.stateChanged(this.target.name, state));
    const ended = (id: number): void => {
      if (this.#current?.prompt.id === id) this.#current = null;
      this.#tries.delete(id);
    };
    this.#queue = new PromptQueue(target.name, deps, ended, (ms) => this.#wakeup.notifyIn(ms));
    this.#client = new SessionClient(target, deps.driver, () => this.#wakeup.notify());
    this.answers = new SessionAnswers({
      ...deps,
      session: target.name,
      driver: () => this.#driver.questions,
      mayApprove: async () => (await deps.mayApprove?.()) ?? false,
    });
    this.#loop = this.#run();
  }

  get #driver(): SessionDriver {
    return this.#client.driver;
  }

  /** The state that was read last; null before the first read. */
  get state(): SessionState | null {
    return this.#state;
  }

  get isStarting(): boolean {
    return this.#starting !== null || this.#state?.status === 'starting';
  }

  /** Why the oldest prompt waits. */
  get reason(): string | null {
    if (this.#starting) return 'the session is starting';
    if (this.#current) return 'the session works on an earlier prompt';
    if (!this.#state) return this.#lastError || null;
    const { status, waitingFor } = this.#state;
    if (status === 'active') return 'the session is busy';
    if (status === 'waiting') return `the session waits for its user: ${waitingFor ?? 'a dialog is open'}`;
    return status === 'starting' ? 'the session is starting' : null;
  }

  look(): Promise<SessionState> {
    return this.#driver.state();
  }

  get driver(): Pick<SessionDriver, 'screen' | 'saveFile'> {
    return this.#driver;
  }

  /** Call this when a prompt was stored or the settings of the session have changed. */
  wake(): void {
    this.#queue.wake();
    this.#wakeup.notify();
  }

  /** Ends the client and starts it again. If a start is in progress, returns that one. */
  restart(): Promise<{ started: Started }> {
    return this.#start(true);
  }

  /** Ends the client and withdraws the queued prompts, which would start it again. */
  async stop(): Promise<void> {
    this.#client.abort();
    const starting = this.#starting;
    await this.#exclusive(async () => {
      await this.#stopNow();
      for (const { id } of await this.#queue.queued()) {
        await this.#queue.withdraw(id, 'session stopped', { outcome: 'stopped' });
      }
    });
    // A start that was in progress may have opened a terminal meanwhile.
    if (starting) {
      await starting.catch(() => {});
      await this.#exclusive(() => this.#stopNow());
    }
    this.#wakeup.notify();
  }

  /** Takes no more work, waits at most `closeMs` for work in progress, and leaves the client running. */
  async close(): Promise<void> {
    if (!this.#isClosing) {
      this.#isClosing = true;
      this.#client.abort();
      this.answers.close();
      this.#wakeup.notify();
    }
    await withLimit(this.#loop, this.deps.limits.closeMs);
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#wakeup.close();
    await this.#client.close();
  }

  async #run(): Promise<void> {
    while (!this.#isClosing) {
      try {
        await this.#exclusive(() => this.#step());
        this.#lastError = '';
      } catch (error) {
        if (this.#isClosed) return;
        const because = reasonOf(error);
        if (because !== this.#lastError) this.deps.log('session_trouble', { session: this.target.name, because });
        this.#lastError = because;
        this.#wakeup.notifyIn(ERROR_PAUSE_MS);
        if (error instanceof HostUnreachable) await this.#exclusive(() => this.#hostLost(because)).catch(() => {});
      }
      if (!this.#isClosing) await this.#wakeup.next();
    }
  }

  /** Runs one action at a time: a step of the loop, a start or a stop. */
  #exclusive<T>(act: () => Promise<T>): Promise<T> {
    const result = this.#lastAction.then(act);
    this.#lastAction = result.catch(() => {});
    return result;
  }

  /** The host does not answer. A typed prompt continues there, and the record will have its end. Queued prompts fail. */
  async #hostLost(because: string): Promise<void> {
    this.#state = null;
    this.#watched.looked({ status: 'stopped' });
    await this.#failQueued({ outcome: 'unreachable', because });
  }

  async #step(): Promise<void> {
    if (!this.#isLoaded) await this.#load();
    if (this.#isClosing) return;
    const state = await this.#look();
    await this.#read();
    if (state.status === 'stopped') this.#record.forgetMissed();
    const open = await this.#queue.open();
    if (this.#current) {
      await this.#follow(this.#current, state);
      if (!this.#current) this.#wakeup.notify();
      return;
    }
    if (this.#starting || this.#isClosing) return;
    await this.#keepPlace(state);
    await this.#client.renew(this.target);
    await this.#next(open, state);
  }

  /** Continues where the last process stopped. */
  async #load(): Promise<void> {
    await this.#record.load();
    await this.#client.renew(this.target, this.#record.conversation ?? this.target.conversation);
    const [head] = await this.deps.store.open(this.target.name, 0);
    const begun = head && head.state !== 'queued' ? await this.deps.store.prompt(head.id) : null;
    await this.#record.open(this.#driver, begun?.place ?? null);
    if (begun) this.#current = this.#asCurrent(begun);
    this.#quietSince = this.deps.now();
    this.#isLoaded = true;
  }

  #asCurrent(prompt: StoredPrompt): Current {
    let { text } = prompt;
    try {
      text = this.#driver.prepare(text, { raw: prompt.raw });
    } catch {
      // The settings forbid this text by now, but it may have been typed before.
    }
    return { prompt, text, turn: prompt.turn, isUnknown: prompt.state === 'submitting' };
  }

  async #look(): Promise<SessionState> {
    const state = await this.#driver.state();
    const before = this.#state;
    this.#state = state;
    if (before?.status !== state.status) this.#quietSince = this.deps.now();
    await this.#record.follow(state);
    this.#watched.looked(state);
    return state;
  }

  async #read(): Promise<void> {
    const count = await this.#record.read(this.#driver, (event) => {
      this.#watched.recorded(event);
      return this.#take(event);
    });
    if (count > 0) this.#quietSince = this.deps.now();
  }

  /** True if the event belongs to the current prompt. */
  async #take(event: TurnEvent): Promise<boolean> {
    const current = this.#current;
    if (!current) return false;
    const { id, key } = current.prompt;
    if (event.kind === 'prompt') {
      if (event.turn === current.turn) return true;
      if (current.turn !== null || !this.#driver.isOurs(event, { key, text: current.text })) return false;
      await this.#queue.submitted(id, event.turn);
      current.turn = event.turn;
      this.#startsWithoutPrompt = 0;
      return true;
    }
    if (event.turn !== current.turn) return false;
    if (event.how === 'done') await this.#queue.answer(id, event.text, event.shared === true);
    else if (await this.#isStopped()) await this.#queue.fail(id, 'session stopped', { outcome: 'stopped' });
    else if (event.how === 'interrupted') await this.#queue.fail(id, 'interrupted', { outcome: 'interrupted' });
    else await this.#queue.fail(id, event.text || 'the turn failed');
    return true;
  }

  /** Asks the driver too: the client may have been killed after the last look. */
  async #isStopped(): Promise<boolean> {
    return this.#state?.status === 'stopped' || (await this.#driver.state()).status === 'stopped';
  }

  /** Decides about the current prompt when the record says nothing new about it. */
  async #follow(current: Current, state: SessionState): Promise<void> {
    const { prompt, turn, isUnknown, isTaken } = current;
    const { silenceMs, lostMs } = this.deps.limits;
    // A raw prompt may be a command that opens a panel of the client. Then no turn begins.
    const isPanel = prompt.raw && turn === null && state.status === 'waiting';
    const quiet = this.#quietMs(isPanel ? { ...state, status: 'idle' } : state);
    current.pid ??= state.pid;
    // A client that was started again does not have the prompt.
    const isGone = state.status === 'stopped' || (state.pid !== undefined && state.pid !== current.pid);
    if (turn === null && isUnknown) {
      const limit = isTaken ? lostMs : silenceMs;
      if (quiet < limit) return this.#lookAfter(limit, quiet);
      return isGone ? this.#requeue(current, 'it was not typed') : this.#retry(current);
    }
    if (isGone) return this.#cutOff(current, 'session stopped', 'stopped');
    const limit = turn === null && prompt.raw ? silenceMs : lostMs;
    if (quiet < limit) return this.#lookAfter(limit, quiet);
    if (turn === null) return this.#failWithoutTurn(current, 'no turn');
    return this.#cutOff(current, 'interrupted', 'interrupted');
  }

  /** Fails the prompt because no end of its turn is expected any more. If the record has one later, it is still stored. */
  async #cutOff(current: Current, because: string, outcome: 'stopped' | 'interrupted'): Promise<void> {
    const { prompt, turn } = current;
    if (turn !== null) this.#record.leave(turn, prompt.id);
    // A client that has ended may not answer any more.
    else await this.#takeBack(current).catch(() => {});
    await this.#queue.fail(prompt.id, because, { outcome });
  }

  /** Queues a prompt again that may have been typed: the record does not have it, and the client has ended. */
  async #requeue(current: Current, because: string): Promise<void> {
    const { id, raw } = current.prompt;
    if (raw) return this.#failWithoutTurn(current, 'no turn');
    if (this.#triesOf(id) >= MOST_TRIES)
      return this.#failWithoutTurn(current, `the client did not record it, ${MOST_TRIES} times`);
    await this.deps.store.requeue(id, because);
    this.#current = null;
  }

  /** Tries a prompt again that may have been typed: the record does not have it, and its text may still be in the composer. */
  async #retry(current: Current): Promise<void> {
    const { id, raw, deadline } = current.prompt;
    if (raw) return this.#failWithoutTurn(current, 'no turn');
    if (current.isTaken) return this.#failWithoutTurn(current, 'the client took it and did not record it');
    const left = 'its text may still be in the composer';
    if (this.#triesOf(id) >= MOST_TRIES)
      return this.#failWithoutTurn(current, `the client did not record it, ${MOST_TRIES} times; ${left}`);
    if (deadline !== null && this.deps.now() >= deadline)
      return this.#failWithoutTurn(current, `its deadline has passed; ${left}`);
    await this.#attempt(current, true);
  }

  /**
   * Fails a prompt that began no turn. The driver takes it back, so that the client does not begin one later. If the client does, that turn
   * does not count as a person's.
   */
  async #failWithoutTurn(current: Current, because: string): Promise<void> {
    const { id, key } = current.prompt;
    await this.#takeBack(current);
    this.#record.missed(id, { key, text: current.text });
    await this.#queue.fail(id, because);
  }

  async #takeBack({ prompt: { key }, text }: Current): Promise<void> {
    await this.#driver.takeBack?.({ key, text });
  }

  #triesOf(id: number): number {
    return this.#tries.get(id) ?? 0;
  }

  /** How long the session has been idle or stopped without a new event (ms); -1 if it is neither. */
  #quietMs({ status }: SessionState): number {
    return status === 'idle' || status === 'stopped' ? this.deps.now() - this.#quietSince : -1;
  }

  /** Stores the place of the record. If the client stopped or was quiet for `lostMs`, no end of an open turn is expected any more. */
  async #keepPlace(state: SessionState): Promise<void> {
    const { lostMs } = this.deps.limits;
    const quiet = this.#quietMs(state);
    const isKept = await this.#record.keep(state.status === 'stopped' || quiet >= lostMs);
    if (!isKept) this.#lookAfter(lostMs, quiet);
  }

  /** Looks again when the session will have been quiet for `ms`. While it is not quiet, its next change wakes the loop. */
  #lookAfter(ms: number, quiet: number): void {
    if (quiet >= 0) this.#wakeup.notifyIn(ms - quiet);
  }

  async #next([head]: StoredPrompt[], { status, pid }: SessionState): Promise<void> {
    if (!head) return;
    // Another process submits this prompt.
    if (head.state !== 'queued') return this.#wakeup.notifyIn(ERROR_PAUSE_MS);
    if (status === 'stopped') {
      this.#startsWithoutPrompt += 1;
      if (this.#startsWithoutPrompt > MOST_TRIES)
        return this.#failQueued({ outcome: 'not_started', because: ENDS_AT_ONCE });
      this.#start(false).catch(() => {});
      return;
    }
    if (status !== 'idle') return;
    const pause = this.#notBefore - this.deps.now();
    if (pause > 0) return this.#wakeup.notifyIn(pause);
    await this.#submit(head, pid);
  }

  async #submit(prompt: StoredPrompt, pid: number | undefined): Promise<void> {
    const { id, raw } = prompt;
    let text: string;
    try {
      text = this.#driver.prepare(prompt.text, { raw });
    } catch (error) {
      return this.#queue.fail(id, reasonOf(error));
    }
    await this.#record.anchor(this.#driver);
    if (this.#isClosing || !(await this.deps.store.begin(id, this.#record.place))) return this.#wakeup.notify();
    this.#current = { prompt, text, turn: null, isUnknown: true, pid };
    await this.#attempt(this.#current, false);
  }

  async #attempt(current: Current, isRetry: boolean): Promise<void> {
    const { id, key } = current.prompt;
    const submission = await this.#client.submit({ key, text: current.text, isRetry });
    if (this.#isClosed) return;
    this.#quietSince = this.deps.now();
    this.#wakeup.notify();
    if (submission.outcome === 'unknown') {
      this.#tries.set(id, this.#triesOf(id) + 1);
      current.isTaken = submission.isTaken === true;
      this.deps.log('prompt_unknown', { session: this.target.name, id, because: submission.because });
    } else if (submission.outcome === 'submitted') {
      current.isUnknown = false;
      this.#pauseMs = 0;
      this.#startsWithoutPrompt = 0;
      await this.#queue.submitted(id, null);
    } else if (submission.retry) {
      // An earlier attempt may have left the text in the composer, so the prompt stays `submitting`.
      if (isRetry) return;
      await this.deps.store.requeue(id, submission.because);
      this.#current = null;
      this.#pause();
    } else await this.#queue.fail(id, submission.because);
  }

  /** Waits longer after each failed attempt: a dialog or a draft may stay for long. */
  #pause(): void {
    const { retryMs } = this.deps.limits;
    this.#pauseMs = Math.min(this.#pauseMs * 2 || retryMs, retryMs * 4);
    this.#notBefore = this.deps.now() + this.#pauseMs;
  }

  #start(stopFirst: boolean): Promise<{ started: Started }> {
    this.#starting ??= this.#startNow(stopFirst).finally(() => {
      this.#starting = null;
      this.#wakeup.notify();
    });
    return this.#starting;
  }

  async #startNow(stopFirst: boolean): Promise<{ started: Started }> {
    if (stopFirst) this.#client.abort();
    await this.#exclusive(async () => {
      if (stopFirst) await this.#stopNow();
      await this.#client.renew(this.target, this.#record.conversation ?? this.target.conversation);
    });
    try {
      const result = await this.#driver.start();
      if (!this.#isClosed) await this.#queue.startedAs(result.started);
      return result;
    } catch (error) {
      const because = reasonOf(error);
      const outcome = error instanceof HostUnreachable ? 'unreachable' : 'not_started';
      if (!this.#isClosing) await this.#exclusive(() => this.#failQueued({ outcome, because }));
      throw error;
    }
  }

  async #failQueued(end: Extract<PromptEnd, { outcome: 'not_started' | 'unreachable' }>): Promise<void> {
    this.#startsWithoutPrompt = 0;
    for (const { id } of await this.#queue.queued()) await this.#queue.fail(id, end.because, end);
  }

  async #stopNow(): Promise<void> {
    await this.#driver.stop();
    if (!this.#isLoaded) await this.#load();
    await this.#look();
    await this.#read();
    const current = this.#current;
    if (!current) return;
    if (current.turn === null && current.isUnknown)
      await this.#requeue(current, 'the session was stopped before it was typed');
    else await this.#cutOff(current, 'session stopped', 'stopped');
  }
}
