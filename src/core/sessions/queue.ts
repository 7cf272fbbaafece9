import type { PromptState, SessionStore, StoredPrompt } from '../ports/session-store.ts';
import type { PromptEnd, PromptUpdate, Started } from './control.ts';

const OPEN: readonly PromptState[] = ['queued', 'submitting', 'submitted'];

export interface QueueDeps {
  store: SessionStore;
  publish(): Promise<void>;
  now(): number;
  /** Tells the caller that waits for this prompt. */
  tell(id: number, update: PromptUpdate): void;
}

/** The prompts of one session: finds the open ones, and ends each in the store and for the caller that waits for it. */
export class PromptQueue {
  /** The store may have open prompts. */
  #hasWork = true;
  readonly #started = new Map<number, Started>();

  /** Calls `ended` with each prompt that ends, and `lookIn` with the time until the next deadline. */
  constructor(
    readonly session: string,
    readonly deps: QueueDeps,
    readonly ended: (id: number) => void,
    readonly lookIn: (ms: number) => void,
  ) {}

  /** Call this when a prompt was stored. */
  wake(): void {
    this.#hasWork = true;
  }

  /** The oldest open prompt, or an empty list. Withdraws queued prompts whose deadline has passed. */
  async open(): Promise<StoredPrompt[]> {
    for (const { id } of await this.#all()) {
      const prompt = await this.deps.store.prompt(id);
      if (prompt && OPEN.includes(prompt.state)) return [prompt];
    }
    return [];
  }

  async queued(): Promise<Pick<StoredPrompt, 'id'>[]> {
    return (await this.#all()).filter(({ state }) => state === 'queued');
  }

  /** All open prompts, without their texts: there may be many, and the worker asks at each step. */
  async #all(): Promise<StoredPrompt[]> {
    if (!this.#hasWork) return [];
    const found = this.deps.store.open(this.session, 0);
    // A prompt that is stored after this line calls `wake` itself.
    this.#hasWork = false;
    const open: StoredPrompt[] = [];
    for (const prompt of await this.#orAgain(found)) {
      this.#hasWork = true;
      const left = prompt.state === 'queued' && prompt.deadline !== null ? prompt.deadline - this.deps.now() : Infinity;
      if (left <= 0) await this.withdraw(prompt.id, 'it was not typed in time', { outcome: 'withdrawn' });
      else open.push(prompt);
      if (left > 0 && left < Infinity) this.lookIn(left);
    }
    return open;
  }

  async #orAgain(found: Promise<StoredPrompt[]>): Promise<StoredPrompt[]> {
    try {
      return await found;
    } catch (error) {
      this.#hasWork = true;
      throw error;
    }
  }

  /** Notes how the session was started, for all prompts that wait now. */
  async startedAs(started: Started): Promise<void> {
    for (const { id } of await this.queued()) this.#started.set(id, started);
  }

  /** The client has the prompt. */
  async submitted(id: number, turn: string | null): Promise<void> {
    await this.deps.store.submitted(id, turn);
    this.deps.tell(id, { outcome: 'submitted', ...this.#startOf(id) });
  }

  async answer(id: number, text: string, isShared: boolean): Promise<void> {
    const ts = Math.floor(this.deps.now() / 1000);
    const line = { session: this.session, ts, from: 'claude', text } as const;
    const reply = await this.deps.store.answer(id, isShared ? { ...line, shared: true } : line);
    await this.#done(id, { outcome: 'answered', reply, ...this.#startOf(id) });
  }

  async fail(id: number, because: string, end: PromptEnd = { outcome: 'failed', because }): Promise<void> {
    const status = end.outcome === 'interrupted' ? 'interrupted' : 'failed';
    await this.deps.store.end(id, 'failed', because, status);
    await this.#done(id, end);
  }

  async withdraw(id: number, because: string, end: PromptEnd): Promise<void> {
    if (await this.deps.store.end(id, 'withdrawn', because)) await this.#done(id, end);
  }

  async #done(id: number, end: PromptEnd): Promise<void> {
    this.ended(id);
    this.#started.delete(id);
    await this.deps.publish();
    this.deps.tell(id, end);
  }

  /** How the session was started for this prompt, if it was. */
  #startOf(id: number): { started?: Started } {
    const started = this.#started.get(id);
    return started ? { started } : {};
  }
}
