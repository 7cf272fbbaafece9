import { reasonOf } from '../refusal.ts';
import type { Prompt, SessionDriver, SessionTarget, Submission } from '../ports/session.ts';

/** The driver of one session, made again when the settings of the session have changed. */
export class SessionClient {
  #driver: SessionDriver;
  #made: SessionTarget;
  #unwatch: () => void;
  #attempt: AbortController | null = null;

  constructor(
    target: SessionTarget,
    readonly make: (target: SessionTarget) => SessionDriver,
    readonly changed: () => void,
  ) {
    this.#made = target;
    this.#driver = make(target);
    this.#unwatch = this.#driver.watch(changed);
  }

  get driver(): SessionDriver {
    return this.#driver;
  }

  /** Makes a driver for the target as it is now. With a conversation, also for that one: a client that starts goes on with it. */
  async renew(target: SessionTarget, conversation: string | null = this.#made.conversation): Promise<void> {
    const wanted = { ...target, conversation };
    if (JSON.stringify(wanted) === JSON.stringify(this.#made)) return;
    // One after the other: two drivers of one session could claim the same conversation.
    this.#unwatch();
    await this.#driver.close();
    this.#made = wanted;
    this.#driver = this.make(wanted);
    this.#unwatch = this.#driver.watch(this.changed);
  }

  /** One attempt. A driver that fails cannot tell whether the prompt went in. */
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

  /** Calls off the current attempt. */
  abort(): void {
    this.#attempt?.abort();
  }

  async close(): Promise<void> {
    this.#unwatch();
    await this.#driver.close();
  }
}
