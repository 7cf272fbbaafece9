import { reasonOf } from '../refusal.ts';
import type { Prompt, SessionDriver, SessionTarget, Submission } from '../ports/session.ts';

/** Owns the driver of one session, and replaces it when the settings of the session change. */
export class SessionClient {
  #driver: SessionDriver;
  #target: SessionTarget;
  #unwatch: () => void;
  #attempt: AbortController | null = null;

  constructor(
    target: SessionTarget,
    readonly make: (target: SessionTarget) => SessionDriver,
    readonly changed: () => void,
  ) {
    this.#target = target;
    this.#driver = make(target);
    this.#unwatch = this.#driver.watch(changed);
  }

  get driver(): SessionDriver {
    return this.#driver;
  }

  /** Replaces the driver if the target or its conversation has changed. A client that starts resumes `conversation`. */
  async renew(target: SessionTarget, conversation: string | null = this.#target.conversation): Promise<void> {
    const wanted = { ...target, conversation };
    if (JSON.stringify(wanted) === JSON.stringify(this.#target)) return;
    // Close the old driver first: two drivers of one session could claim the same conversation.
    this.#unwatch();
    await this.#driver.close();
    this.#target = wanted;
    this.#driver = this.make(wanted);
    this.#unwatch = this.#driver.watch(this.changed);
  }

  /** Makes one attempt. If the driver throws, nobody knows whether the prompt was typed, so the outcome is `unknown`. */
  async submit(prompt: Prompt): Promise<Submission> {
    const abort = new AbortController();
    this.#attempt = abort;
    try {
      return await this.#driver.submit(prompt, abort.signal);
    } catch (error) {
      return { outcome: 'unknown', because: reasonOf(error) };
    } finally {
      this.#attempt = null;
    }
  }

  /** Aborts the current attempt. */
  abort(): void {
    this.#attempt?.abort();
  }

  async close(): Promise<void> {
    this.#unwatch();
    await this.#driver.close();
  }
}
