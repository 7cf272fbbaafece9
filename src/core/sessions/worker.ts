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
  /** For those who wait for this prompt. */
  tell(id: number, news: PromptUpdate): void;
  stateChanged(session: string, state: SessionState): void;
}

/** The prompt that may be in the client now. */
interface Current {
  prompt: StoredPrompt;
  /** As the driver prepared it. */
  text: string;
  turn: string | null;
  /** Only the record can tell whether it was typed. */
  isUnknown: boolean;
  /** It left the composer, so it is not typed again. */
  isTaken?: boolean;
  /** The process that has it. */
  pid?: number | undefined;
}

/** A prompt that may have gone in and left no trace is tried so often. */
const MOST_TRIES = 3;
/** After an error of the store or the driver. */
const TROUBLE_MS = 1000;
const VAIN = 'the client ends as soon as it was started';

/**
 * Gives one session its prompts, one after the other, oldest first, and stores what it answers.
 *
 * queued → submitting → submitted → answered, or failed; queued → withdrawn.
 *
 * `queued`: nothing was typed. When the session is idle, the head of the queue is begun; a stopped session is started first, and if that
 * fails, all prompts that waited for it fail. If the driver leaves a prompt out because of a dialog, a draft or a busy client, it is
 * queued again with the reason. A crash changes nothing: it waits in the store.
 *
 * `submitting`: committed with the place where the record ended, and then handed to the driver. A crash leaves it open whether it was
 * typed, as does a driver that says `unknown`. The record from that place decides: if the prompt is there, it is `submitted`. If the session
 * was quiet for `silenceMs` and the record is silent, it is tried again. It stays `submitting` for that, because its text may be in the
 * composer: there it gets the Enter that is missing, and it is never called withdrawn. If the client has ended, its composer went with it,
 * and the prompt is queued again. The driver types into an empty composer only, so a text that was left there is never joined to the next.
 *
 * `submitted`: the client has it. Its turn ends with the end event of that turn: `answered`, or `failed` if it was interrupted, failed, or
 * if the client stopped. A crash leaves it in the record: the next worker reads on from the place, and finds the same end.
 *
 * `answered`, `failed`, `withdrawn` are final, and stored in one commit with the line of the history that says so. If the record has a prompt
 * only after it failed for want of a turn, that turn is not a person's, and its answer is stored as the answer to the prompt.
 */
export class SessionWorker {
  readonly #wakeup = new Wakeup();
  readonly #record: RecordReader;
  readonly #queue: PromptQueue;
  readonly #client: SessionClient;
  readonly #watched: TurnWatch;
  /** What the session asks, and the answers to it. */
  readonly answers: SessionAnswers;
  #state: SessionState | null = null;
  /** Since when the session is idle or stopped, and the record silent. */
  #quietSince = 0;
  #current: Current | null = null;
  #isLoaded = false;
  #starting: Promise<{ started: Started }> | null = null;
  readonly #tries = new Map<number, number>();
  /** Starts since a client took a prompt. */
  #startsWithoutPrompt = 0;
  #trouble = '';
  #notBefore = 0;
  #pauseMs = 0;
  #turn: Promise<unknown> = Promise.resolve();
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

  /** As it was seen last; null before the first look. */
  get state(): SessionState | null {
    return this.#state;
  }

  get isStarting(): boolean {
    return this.#starting !== null || this.#state?.status === 'starting';
  }

  /** Why the head of its queue waits. */
  get reason(): string | null {
    if (this.#starting) return 'the session starts';
    if (this.#current) return 'the session works on an earlier prompt';
    if (!this.#state) return this.#trouble || null;
    const { status, waitingFor } = this.#state;
    if (status === 'active') return 'the session is busy';
    if (status === 'waiting') return `the session waits for its user: ${waitingFor ?? 'a dialog is open'}`;
    return status === 'starting' ? 'the session starts' : null;
  }

  look(): Promise<SessionState> {
    return this.#driver.state();
  }

  get driver(): Pick<SessionDriver, 'screen' | 'saveFile'> {
    return this.#driver;
  }

  /** A prompt was stored, or the settings of the session have changed. */
  wake(): void {
    this.#queue.wake();
    this.#wakeup.notify();
  }

  /** Ends the client and starts it again. Shares a start that is under way. */
  restart(): Promise<{ started: Started }> {
    return this.#start(true);
  }

  /** Ends the client. What waits for it is withdrawn: it would start the client again. */
  async stop(): Promise<void> {
    this.#client.abort();
    const starting = this.#starting;
    await this.#exclusive(async () => {
      await this.#stopNow();
      for (const { id } of await this.#queue.queued()) {
        await this.#queue.withdraw(id, 'session stopped', { outcome: 'stopped' });
      }
    });
    // A start that was under way may have opened a terminal since.
    if (starting) {
      await starting.catch(() => {});
      await this.#exclusive(() => this.#stopNow());
    }
    this.#wakeup.notify();
  }

  /** Takes no more work, lets a submission under way finish, and leaves the client alone. */
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
        this.#trouble = '';
      } catch (error) {
        if (this.#isClosed) return;
        const because = reasonOf(error);
        if (because !== this.#trouble) this.deps.log('session_trouble', { session: this.target.name, because });
        this.#trouble = because;
        this.#wakeup.notifyIn(TROUBLE_MS);
        if (error instanceof HostUnreachable) await this.#exclusive(() => this.#lost(because)).catch(() => {});
      }
      if (!this.#isClosing) await this.#wakeup.next();
    }
  }

  /** One at a time: a look of the loop, a start, a stop. */
  #exclusive<T>(act: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(act);
    this.#turn = result.catch(() => {});
    return result;
  }

  /** What is in the client goes on there, and its record tells the end. What was not typed does not wait for the host. */
  async #lost(because: string): Promise<void> {
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

  /** After a start of this program: reads on where the last one stopped. */
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
      // It was typed before the settings forbade it.
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

  /** True if the event is of the prompt that the client has. */
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

  /** A client that was killed after the last look has ended its turn, too. */
  async #isStopped(): Promise<boolean> {
    return this.#state?.status === 'stopped' || (await this.#driver.state()).status === 'stopped';
  }

  /** What becomes of the current prompt if the record says no more of it. */
  async #follow(current: Current, state: SessionState): Promise<void> {
    const { prompt, turn, isUnknown, isTaken } = current;
    const { silenceMs, lostMs } = this.deps.limits;
    // A command of the client may open a panel; then no turn begins.
    const isPanel = prompt.raw && turn === null && state.status === 'waiting';
    const quiet = this.#quietMs(isPanel ? { ...state, status: 'idle' } : state);
    current.pid ??= state.pid;
    // A client that was started again since does not know of it.
    const isGone = state.status === 'stopped' || (state.pid !== undefined && state.pid !== current.pid);
    if (turn === null && isUnknown) {
      const limit = isTaken ? lostMs : silenceMs;
      if (quiet < limit) return this.#lookAfter(limit, quiet);
      return isGone ? this.#giveBack(current, 'it was not typed') : this.#again(current);
    }
    if (isGone) return this.#cutOff(current, 'session stopped', 'stopped');
    const limit = turn === null && prompt.raw ? silenceMs : lostMs;
    if (quiet < limit) return this.#lookAfter(limit, quiet);
    if (turn === null) return this.#lose(current, 'no turn');
    return this.#cutOff(current, 'interrupted', 'interrupted');
  }

  /** The turn has no end in the record. If one comes all the same, it is still stored. */
  async #cutOff(current: Current, because: string, outcome: 'stopped' | 'interrupted'): Promise<void> {
    const { prompt, turn } = current;
    if (turn !== null) this.#record.leave(turn, prompt.id);
    // A client that has ended may be past answering.
    else await this.#takeBack(current).catch(() => {});
    await this.#queue.fail(prompt.id, because, { outcome });
  }

  /** It may have been typed, the record does not have it, and the client has ended. */
  async #giveBack(current: Current, because: string): Promise<void> {
    const { id, raw } = current.prompt;
    if (raw) return this.#lose(current, 'no turn');
    if (this.#triesOf(id) >= MOST_TRIES)
      return this.#lose(current, `the client did not record it, ${MOST_TRIES} times`);
    await this.deps.store.requeue(id, because);
    this.#current = null;
  }

  /** It may have been typed, and the record does not have it. Its text may still be in the composer. */
  async #again(current: Current): Promise<void> {
    const { id, raw, deadline } = current.prompt;
    if (raw) return this.#lose(current, 'no turn');
    if (current.isTaken) return this.#lose(current, 'the client took it and did not record it');
    const left = 'its text may still be in the composer';
    if (this.#triesOf(id) >= MOST_TRIES)
      return this.#lose(current, `the client did not record it, ${MOST_TRIES} times; ${left}`);
    if (deadline !== null && this.deps.now() >= deadline) return this.#lose(current, `its time is over; ${left}`);
    await this.#attempt(current, true);
  }

  /** It fails without a turn. The client must not begin one later, and if it does, that is not a person's. */
  async #lose(current: Current, because: string): Promise<void> {
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

  /** For how long the session has been doing nothing, and recorded nothing. */
  #quietMs({ status }: SessionState): number {
    return status === 'idle' || status === 'stopped' ? this.deps.now() - this.#quietSince : -1;
  }

  /** A turn that has no end in the record when the client stopped, or was quiet for long, gets none. */
  async #keepPlace(state: SessionState): Promise<void> {
    const { lostMs } = this.deps.limits;
    const quiet = this.#quietMs(state);
    const isKept = await this.#record.keep(state.status === 'stopped' || quiet >= lostMs);
    if (!isKept) this.#lookAfter(lostMs, quiet);
  }

  /** Looks again when the session has been quiet for this long. While it is not, its next change is the time to look. */
  #lookAfter(ms: number, quiet: number): void {
    if (quiet >= 0) this.#wakeup.notifyIn(ms - quiet);
  }

  async #next([head]: StoredPrompt[], { status, pid }: SessionState): Promise<void> {
    if (!head) return;
    // Another process has it.
    if (head.state !== 'queued') return this.#wakeup.notifyIn(TROUBLE_MS);
    if (status === 'stopped') {
      this.#startsWithoutPrompt += 1;
      if (this.#startsWithoutPrompt > MOST_TRIES) return this.#failQueued({ outcome: 'not_started', because: VAIN });
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
      // An attempt before this one may have left it in the composer.
      if (isRetry) return;
      await this.deps.store.requeue(id, submission.because);
      this.#current = null;
      this.#pause();
    } else await this.#queue.fail(id, submission.because);
  }

  /** A dialog or a draft may stay for long: the driver is not asked all the time. */
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
    if (current.turn === null && current.isUnknown) await this.#giveBack(current, 'the session was stopped before');
    else await this.#cutOff(current, 'session stopped', 'stopped');
  }
}
