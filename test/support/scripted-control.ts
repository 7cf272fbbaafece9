import { stripVTControlCharacters } from 'node:util';
import type { ScreenOptions, SessionState } from '../../src/core/ports/session.ts';
import type { SessionStore, StoredPrompt } from '../../src/core/ports/session-store.ts';
import { SessionAnswers } from '../../src/core/questions/answers.ts';
import type {
  AnsweredQuestions,
  AnswerEnd,
  AnswerRequest,
  PendingQuestions,
} from '../../src/core/questions/questions.ts';
import type { PromptEnd, PromptRequest, PromptSent, SessionControl, Started } from '../../src/core/sessions/control.ts';
import { Refusal } from '../../src/core/refusal.ts';
import { targetOf } from '../../src/protocols/control/config.ts';
import type { ControlFile } from '../../src/protocols/control/config.ts';
import { saveClientFile } from '../../src/sessions/client-files.ts';
import { ScriptedQuestions } from './scripted-questions.ts';

/** What a scripted session does with a prompt: its answer, or the end without an answer. */
export type Script = (request: PromptRequest) => Promise<string | Exclude<PromptEnd, { outcome: 'answered' }>>;

/** A session control without clients: the test sets the answers and the states of sessions. Prompts and answers are stored as in the product. */
export class ScriptedControl implements SessionControl {
  readonly states = new Map<string, SessionState>();
  /** The script of each session. Without a script the answer is `re: <text>`. */
  readonly scripts = new Map<string, Script>();
  readonly asked: PromptRequest[] = [];
  readonly restarted: string[] = [];
  restartFails: Refusal | null = null;
  sendFails: Error | null = null;
  /** A restart waits until this resolves. */
  restartGate: Promise<void> = Promise.resolve();
  screens = new Map<string, string>();
  now: () => number = Date.now;
  readonly #asking = new Map<string, { script: ScriptedQuestions; answers: SessionAnswers }>();
  #watchers = new Set<{
    sessions: readonly string[];
    changed: (session: string, state: SessionState | null) => void;
  }>();

  constructor(
    readonly config: ControlFile,
    readonly store: SessionStore,
    readonly publish: () => Promise<void>,
  ) {}

  /** Sets the state of a session, and notifies its watchers. */
  becomes(session: string, state: SessionState | null): void {
    if (state) this.states.set(session, state);
    for (const { sessions, changed } of this.#watchers)
      if (sessions.length === 0 || sessions.includes(session)) changed(session, state);
  }

  get watchers(): number {
    return this.#watchers.size;
  }

  async sessions() {
    const settings = this.config.read();
    return this.config.sessions().map(([name, entry]) => ({
      ...targetOf(name, entry, settings, '/home/me'),
      conversation: null,
      state: this.#state(name),
    }));
  }

  async ask(request: PromptRequest): Promise<PromptEnd> {
    const { prompt, end } = await this.#say(request);
    const said = await end;
    if (typeof said !== 'string') {
      if (said.outcome === 'failed') await this.store.end(prompt.id, 'failed', said.because, 'failed');
      await this.publish();
      return said;
    }
    const reply = await this.store.answer(prompt.id, {
      session: request.session,
      ts: Math.floor(Date.now() / 1000),
      from: 'claude',
      text: said,
      reply_to: prompt.id,
    });
    await this.publish();
    return { outcome: 'answered', reply };
  }

  async send(request: PromptRequest): Promise<PromptSent> {
    if (this.sendFails) throw this.sendFails;
    const { prompt, end } = await this.#say(request);
    void end.then(async (said): Promise<unknown> => {
      if (typeof said !== 'string') return null;
      const ts = Math.floor(Date.now() / 1000);
      return this.store.answer(prompt.id, {
        session: request.session,
        ts,
        from: 'claude',
        text: said,
        reply_to: prompt.id,
      });
    });
    await this.publish();
    return { outcome: 'sent', id: prompt.id, status: 'queued' };
  }

  async restart(session: string): Promise<{ started: Started }> {
    if (this.restartFails) throw this.restartFails;
    this.restarted.push(session);
    await this.restartGate;
    return { started: 'resumed' };
  }

  async stop(session: string): Promise<void> {
    this.becomes(session, { status: 'stopped' });
  }

  async screen(session: string, lines: number, { styles = false }: ScreenOptions = {}): Promise<string> {
    const screen = this.screens.get(session);
    if (screen === undefined) throw new Refusal('not_found', 'it does not run');
    const shown = screen.split('\n').slice(-lines).join('\n');
    return styles ? shown : stripVTControlCharacters(shown);
  }

  async saveFile(session: string, name: string, bytes: Uint8Array): Promise<string> {
    const folder = this.config.session(session)?.path ?? '';
    return saveClientFile(folder, name, bytes);
  }

  /** The questions of a session. Call `asks` on it to open some. */
  questionsOf(session: string): ScriptedQuestions {
    return this.#answers(session).script;
  }

  async questions(session: string): Promise<PendingQuestions | null> {
    return this.#answers(session).answers.pending();
  }

  async answer(session: string, request: AnswerRequest): Promise<AnswerEnd> {
    return this.#answers(session).answers.answer(request);
  }

  /** Simulates a restart: the dialog is open, and the choices made so far are in the store. */
  opensAnswersAgain(session: string): void {
    const { script } = this.#answers(session);
    this.#asking.set(session, { script, answers: this.#newAnswers(session, script) });
  }

  async answered(session: string): Promise<AnsweredQuestions | null> {
    return this.#answers(session).answers.last;
  }

  #answers(session: string): { script: ScriptedQuestions; answers: SessionAnswers } {
    const known = this.#asking.get(session);
    if (known) return known;
    const script = new ScriptedQuestions();
    const made = { script, answers: this.#newAnswers(session, script) };
    this.#asking.set(session, made);
    return made;
  }

  #newAnswers(session: string, script: ScriptedQuestions): SessionAnswers {
    const { store, publish } = this;
    const mayApprove = async (): Promise<boolean> => this.config.read().control_may_approve;
    const now = (): number => this.now();
    return new SessionAnswers({ session, driver: () => script, mayApprove, store, publish, now });
  }

  async queue(session?: string): Promise<StoredPrompt[]> {
    return this.store.open(session);
  }

  async cancel(id: number): Promise<boolean> {
    return this.store.end(id, 'withdrawn', 'taken back', 'withdrawn');
  }

  watch(sessions: readonly string[], changed: (session: string, state: SessionState | null) => void): () => void {
    const watcher = { sessions, changed };
    this.#watchers.add(watcher);
    const names = sessions.length > 0 ? sessions : this.config.sessions().map(([name]) => name);
    for (const name of names) changed(name, this.config.session(name) ? this.#state(name) : null);
    return () => this.#watchers.delete(watcher);
  }

  async close(): Promise<void> {}

  #state(name: string): SessionState {
    return this.states.get(name) ?? { status: 'stopped' };
  }

  async #say(request: PromptRequest): Promise<{ prompt: StoredPrompt; end: ReturnType<Script> }> {
    this.asked.push(request);
    const { session, text, from, agent, username, fields } = request;
    const ts = Math.floor(Date.now() / 1000);
    const prompt = await this.store.enqueue(
      { ...fields, session, ts, from, text, ...(agent && { agent }), ...(username && { username }) },
      { key: crypto.randomUUID(), raw: request.raw ?? false, at: Date.now(), deadline: request.deadline },
    );
    request.stored?.(prompt.id);
    const script = this.scripts.get(session) ?? (async () => `re: ${text}`);
    return { prompt, end: script(request) };
  }
}
