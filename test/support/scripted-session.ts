import { openControl } from '../../src/core/sessions/control.ts';
import type { ControlDeps, ControlLimits, PromptRequest, SessionControl } from '../../src/core/sessions/control.ts';
import type { SessionStore } from '../../src/core/ports/session-store.ts';
import { HostUnreachable } from '../../src/core/ports/session.ts';
import type {
  Prompt,
  RecordPlace,
  ScreenOptions,
  SessionDriver,
  SessionState,
  SessionTarget,
  Submission,
  TurnEvent,
} from '../../src/core/ports/session.ts';
import { Refusal } from '../../src/core/refusal.ts';
import { openSqliteJournal } from '../../src/store/journal/sqlite.ts';
import { within } from './within.ts';

const NEVER = new Promise<never>(() => {});

/** The outcome of one attempt to submit a prompt, if a test sets it. */
export type Attempt =
  /** The client takes the text and records it. */
  | { outcome: 'submitted' }
  /** The client takes the text and begins no turn. */
  | { outcome: 'ignored' }
  /** The client takes the text, but records it only when `recordLate` is called. */
  | { outcome: 'unrecorded' }
  /**
   * The driver does not know what happened. `stranded`: the text stays in the composer. `taken`: the client took it, and records it when
   * `recordLate` is called.
   */
  | { outcome: 'unknown'; wentIn: boolean; meanwhile?: () => void }
  | { outcome: 'stranded' }
  | { outcome: 'taken' }
  | { outcome: 'refused'; because: string }
  | { outcome: 'throws'; wentIn: boolean };

/** A client that a test controls. It keeps running when its driver is closed, as a real one does. */
export class ScriptedClient {
  readonly record: TurnEvent[] = [];
  /** Every text that the driver submitted and the client took. */
  readonly typed: string[] = [];
  readonly attempts: Attempt[] = [];
  /** The texts that the driver took back. */
  readonly takenBack: string[] = [];
  /** The files that were saved for it, by name. */
  readonly files = new Map<string, Uint8Array>();
  starts = 0;
  stops = 0;
  looks = 0;
  isRunning = true;
  dialog: string | null = null;
  draft = '';
  conversation: string | undefined = 'conversation-1';
  /** A start waits until this resolves. */
  startGate: Promise<void> = Promise.resolve();
  startFailure: string | null = null;
  /** False: a stop during a start ends nothing, because no terminal is open yet. */
  stopEndsStart = true;
  startsAs: 'resumed' | 'fresh' = 'resumed';
  /** An attempt waits until this resolves. */
  submitGate: Promise<void> = Promise.resolve();
  /** Reading the state waits until this resolves. */
  stateGate: Promise<void> = Promise.resolve();
  /** If set, answers every prompt at once. */
  reply: ((text: string) => string) | null = null;
  pid = 1;
  turn: string | null = null;
  #turns = 0;
  #isStarting = false;
  #endStart = (): void => {};
  readonly #watchers = new Set<() => void>();
  /** If set, the client's host cannot be reached, for this reason. */
  hostTrouble: string | null = null;
  readonly #unrecorded: string[] = [];

  constructor(readonly name = 'web') {}

  state(): SessionState {
    const { conversation, pid } = this;
    if (this.#isStarting) return { status: 'starting' };
    if (!this.isRunning) return { status: 'stopped' };
    const known = { pid, ...(conversation !== undefined && { conversation }) };
    if (this.dialog !== null) return { status: 'waiting', waitingFor: this.dialog, ...known };
    return { status: this.turn === null ? 'idle' : 'active', ...known };
  }

  changed(): void {
    for (const tell of this.#watchers) tell();
  }

  watch(tell: () => void): () => void {
    this.#watchers.add(tell);
    return () => void this.#watchers.delete(tell);
  }

  get watchers(): number {
    return this.#watchers.size;
  }

  /** A person types and presses Enter. */
  person(text: string): void {
    this.#begin(text);
    this.changed();
  }

  answer(text: string): void {
    this.#end('done', text);
  }

  /** Adds a person's text to the turn, and ends it with one answer to both. */
  answerBoth(text: string): void {
    this.#end('done', text, { shared: true });
  }

  interrupt(): void {
    this.#end('interrupted', '');
  }

  failTurn(text: string): void {
    this.#end('failed', text);
  }

  /** Ends the client, as if its process ended in the terminal. */
  die(): void {
    this.isRunning = false;
    this.turn = null;
    this.dialog = null;
    this.draft = '';
    this.changed();
  }

  set(fields: Partial<Pick<ScriptedClient, 'dialog' | 'draft' | 'conversation' | 'turn'>>): void {
    Object.assign(this, fields);
    this.changed();
  }

  /** Records the texts that were taken without a record. */
  recordLate(): void {
    for (const text of this.#unrecorded.splice(0)) this.#begin(text);
    this.changed();
  }

  async start(): Promise<{ started: 'resumed' | 'fresh' }> {
    this.starts += 1;
    this.#isStarting = true;
    this.changed();
    const ended = Promise.withResolvers<'ended'>();
    this.#endStart = () => ended.resolve('ended');
    const how = await Promise.race([this.startGate, ended.promise]);
    this.#isStarting = false;
    if (how === 'ended') throw new Refusal('outcome_unknown', 'the client ended');
    this.isRunning = this.startFailure === null;
    this.pid += 1;
    this.changed();
    if (this.startFailure !== null) throw new Refusal('unreachable', this.startFailure);
    return { started: this.startsAs };
  }

  stop(): void {
    this.stops += 1;
    if (this.stopEndsStart) this.#endStart();
    this.die();
  }

  /** `isDead`: the process of the driver has ended. */
  async submit({ text, isRetry = false }: Prompt, signal: AbortSignal, isDead: () => boolean): Promise<Submission> {
    await this.submitGate;
    if (isDead()) return NEVER;
    if (signal.aborted) return { outcome: 'left', because: 'it was called off', retry: true };
    if (isRetry && this.draft === text) this.draft = '';
    const left = this.#obstacle();
    if (left !== null) return { outcome: 'left', because: left, retry: true };
    const attempt = this.attempts.shift() ?? { outcome: 'submitted' };
    if (attempt.outcome === 'refused') return { outcome: 'left', because: attempt.because, retry: false };
    if (attempt.outcome === 'stranded') {
      this.draft = text;
      return { outcome: 'unknown', because: 'it could not be taken back' };
    }
    const wentIn = !('wentIn' in attempt) || attempt.wentIn;
    if (wentIn) this.#goIn(text, attempt);
    if (attempt.outcome === 'throws') throw new Error('the terminal is gone');
    if (attempt.outcome === 'unknown') attempt.meanwhile?.();
    if (attempt.outcome === 'taken') return { outcome: 'unknown', because: 'it said nothing', isTaken: true };
    if (attempt.outcome === 'unknown') return { outcome: 'unknown', because: 'the terminal did not answer' };
    return { outcome: 'submitted' };
  }

  #goIn(text: string, { outcome }: Attempt): void {
    this.typed.push(text);
    if (outcome === 'ignored') return;
    if (outcome === 'unrecorded' || outcome === 'taken') this.#unrecorded.push(text);
    else this.#begin(text);
    this.changed();
    if (this.reply) this.#end('done', this.reply(text));
  }

  #obstacle(): string | null {
    if (!this.isRunning) return 'the client does not run';
    if (this.dialog !== null) return `a dialog is open: ${this.dialog}`;
    if (this.draft !== '') return 'somebody types';
    return this.turn === null ? null : 'the client is busy';
  }

  #begin(text: string): void {
    this.#turns += 1;
    this.turn = `${this.name} turn ${this.#turns}`;
    this.record.push({ kind: 'prompt', turn: this.turn, text, at: Date.now() });
  }

  #end(how: 'done' | 'interrupted' | 'failed', text: string, more: { shared?: true } = {}): void {
    const { turn } = this;
    if (turn === null) throw new Error('there is no turn');
    this.turn = null;
    this.record.push({ kind: 'end', turn, how, text, at: Date.now(), ...more });
    this.changed();
  }
}

/** The driver of a scripted client. It refuses texts that begin with `/`. */
export class ScriptedDriver implements SessionDriver {
  isClosed = false;

  constructor(
    readonly client: ScriptedClient,
    readonly target: SessionTarget,
    readonly isDead: () => boolean = () => false,
  ) {}

  async state(): Promise<SessionState> {
    this.client.looks += 1;
    await this.client.stateGate;
    if (this.client.hostTrouble !== null) throw new HostUnreachable(this.client.hostTrouble);
    return this.client.state();
  }

  watch(changed: () => void): () => void {
    return this.client.watch(changed);
  }

  prepare(text: string, options?: { raw?: boolean }): string {
    if (text.startsWith('/') && options?.raw !== true) throw new Refusal('invalid_request', 'this is a command');
    return text.trimEnd();
  }

  async place(): Promise<RecordPlace> {
    return String(this.client.record.length);
  }

  async events(since: RecordPlace): Promise<{ events: TurnEvent[]; next: RecordPlace }> {
    return { events: this.client.record.slice(Number(since)), next: await this.place() };
  }

  isOurs(event: TurnEvent, prompt: Prompt): boolean {
    return event.kind === 'prompt' && event.text === prompt.text;
  }

  submit(prompt: Prompt, signal: AbortSignal): Promise<Submission> {
    return this.client.submit(prompt, signal, this.isDead);
  }

  async takeBack({ text }: Prompt): Promise<void> {
    this.client.takenBack.push(text);
  }

  start(): Promise<{ started: 'resumed' | 'fresh' }> {
    return this.client.start();
  }

  async stop(): Promise<void> {
    this.client.stop();
  }

  async screen(lines: number, { styles = false }: ScreenOptions = {}): Promise<string> {
    return `${lines} ${styles ? 'styled ' : ''}lines of ${this.client.name}`;
  }

  async saveFile(name: string, bytes: Uint8Array, offset = 0): Promise<string> {
    const { files } = this.client;
    files.set(name, Buffer.concat([(files.get(name) ?? new Uint8Array()).subarray(0, offset), bytes]));
    return `${this.target.folder}/${name}`;
  }

  async close(): Promise<void> {
    this.isClosed = true;
  }
}

export function aTarget(name = 'web', fields: Partial<SessionTarget> = {}): SessionTarget {
  const target = { name, host: 'local', client: 'claude', folder: '/project', command: ['claude'] };
  return { ...target, conversation: null, startTimeoutMs: 1000, ...fields };
}

/** Time limits short enough for a test. */
const QUICK: ControlLimits = {
  silenceMs: 30,
  lostMs: 60,
  retryMs: 5,
  sendMs: 50,
  targetsMs: 10,
  stateMs: 50,
  hostMs: 5000,
  closeMs: 1000,
};

/** Session control with scripted clients and a real store. It can be reopened on the same store, as after a restart or a crash. */
export class ControlRig {
  readonly clients = new Map<string, ScriptedClient>();
  readonly drivers: ScriptedDriver[] = [];
  readonly logged: string[] = [];
  targets: SessionTarget[] = [];
  recordsTerminal = true;
  /** Methods of the store that fail the next time they are called. */
  readonly failing = new Set<keyof SessionStore>();
  /** How often a driver was made while another one of the same session was open. */
  overlaps = 0;
  publish: () => Promise<void> = async () => {};
  limits = { ...QUICK };
  /** How far the clock of the control is ahead (ms). */
  aheadMs = 0;
  readonly store: SessionStore;
  readonly #journal: ReturnType<typeof openSqliteJournal>;
  #control: SessionControl | null = null;

  constructor(path: string, ...names: string[]) {
    this.#journal = openSqliteJournal({ path, durability: 'normal' });
    this.store = this.#journal.sessionStore();
    for (const name of names.length > 0 ? names : ['web']) this.add(name);
  }

  add(name: string): ScriptedClient {
    const client = new ScriptedClient(name);
    this.clients.set(name, client);
    this.targets = [...this.targets, aTarget(name)];
    return client;
  }

  client(name = 'web'): ScriptedClient {
    const client = this.clients.get(name);
    if (!client) throw new Error(`no client ${name}`);
    return client;
  }

  get control(): SessionControl {
    return (this.#control ??= openControl(this.#deps(() => false)));
  }

  /** Opens a control that stops at once when `crash` is called, as if its process had ended. */
  openMortal(): { control: SessionControl; crash: () => void } {
    let isDead = false;
    const control = openControl(this.#deps(() => isDead));
    this.#control = control;
    const crash = (): void => {
      isDead = true;
      this.#control = null;
    };
    return { control, crash };
  }

  /** Ends this control and opens another one on the same store. */
  async reopen(): Promise<SessionControl> {
    await this.#control?.close();
    this.#control = null;
    return this.control;
  }

  #deps(isDead: () => boolean): ControlDeps {
    const store = new Proxy(this.store, {
      get: (target, name: keyof SessionStore) => {
        if (isDead()) return () => NEVER;
        if (this.failing.delete(name)) return () => Promise.reject(new Error('disk full'));
        return (target[name] as (...args: unknown[]) => unknown).bind(target);
      },
    });
    return {
      store,
      targets: async () => (isDead() ? NEVER : this.targets),
      driver: (target) => {
        const same = this.drivers.filter((one) => one.target.name === target.name && !one.isDead());
        if (same.some(({ isClosed }) => !isClosed)) this.overlaps += 1;
        const driver = new ScriptedDriver(this.client(target.name), target, isDead);
        this.drivers.push(driver);
        return driver;
      },
      publish: () => this.publish(),
      recordsTerminal: async () => this.recordsTerminal,
      now: () => Date.now() + this.aheadMs,
      log: (event, facts) => this.logged.push(`${event} ${JSON.stringify(facts)}`),
      limits: this.limits,
    };
  }

  async close(): Promise<void> {
    await this.#control?.close();
    await this.#journal.close();
  }

  /** Waits until the client took this many texts. */
  async typed(count = 1, name = 'web'): Promise<string[]> {
    await within(10_000, async () => this.client(name).typed.length >= count);
    return this.client(name).typed;
  }

  /** The history of a session in short: senders, texts and errors. */
  async history(session = 'web'): Promise<string[]> {
    const lines = await this.store.history({ session, after: 0, limit: 1000 });
    return lines.map(({ from, text, status }) => `${from}: ${text}${status ? ` (${status})` : ''}`);
  }
}

export function aRequest(text = 'hello', fields: Partial<PromptRequest> = {}): PromptRequest {
  return { session: 'web', text, from: 'api', agent: 'ci', deadline: null, ...fields };
}
