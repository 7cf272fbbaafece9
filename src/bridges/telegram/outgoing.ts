import type { SessionMessage, SessionStore } from '../../core/ports/session-store.ts';
import type { Log } from '../../core/service.ts';
import type { ControlFile } from '../../protocols/control/config.ts';
import { isFinal } from './api.ts';
import type { ChatState, ShownPrompt } from './state.ts';
import type { Topics } from './topics.ts';
import { cutTo, PIECE_LIMIT } from './pieces.ts';

const PAGE = 50;
const MOST_NOTICES = 1000;

export interface OutgoingDeps {
  store: SessionStore;
  config: ControlFile;
  state: ChatState;
  topics: Topics;
  log: Log;
}

/**
 * Shows the history of each session in its topic. It reads the store, so what was said while the chat was down is shown later, in order. A
 * prompt that failed after it was shown is corrected.
 */
export class Outgoing {
  #notices: { session: string; text: string }[] = [];
  #refused = '';

  constructor(readonly deps: OutgoingDeps) {}

  /** Lines from before the first start are not shown. */
  async open(): Promise<void> {
    const { state, config, store } = this.deps;
    for (const [name] of config.sessions()) if (state.isNew) state.show(name, (await store.last(name))?.id ?? 0);
  }

  notice(session: string, text: string): void {
    this.#notices = [...this.#notices, { session, text }].slice(-MOST_NOTICES);
  }

  /** Says all that there is to say now. */
  async flush(): Promise<void> {
    const { config, topics } = this.deps;
    for (const [name] of config.sessions()) {
      // The chat may refuse this one's topic, for its name. Others have theirs.
      const topic = await this.#orSkip(() => topics.ensure(name));
      if (topic !== null) await this.#showLines(name);
    }
    await this.#correct();
    for (let next = this.#notices[0]; next; next = this.#notices[0]) {
      const { session, text } = next;
      if (config.session(session)) await this.#orSkip(() => topics.say(session, text));
      this.#notices.shift();
    }
  }

  async #showLines(session: string): Promise<void> {
    const { store, state, topics } = this.deps;
    for (;;) {
      const lines = await store.history({ session, after: state.shownUpTo(session) ?? 0, limit: PAGE });
      for (const line of lines) {
        const text = await this.#textOf(line);
        const message = text === null ? null : await this.#orSkip(() => topics.say(session, text));
        const isPrompt = line.from === 'api' || (line.from === 'human' && line.username !== undefined);
        const prompt = { id: line.id, session, message, text: text ?? '' };
        state.show(session, line.id, isPrompt ? prompt : undefined);
      }
      if (lines.length < PAGE) return;
    }
  }

  /** How a line is shown; null if it is not. What people do at the keyboard is shown while they are away from it. */
  async #textOf({ from, text, agent, username, reply_to: asked }: SessionMessage): Promise<string | null> {
    const { config, store } = this.deps;
    const { away } = config.readOrLast();
    if (from === 'api') return `🤖 [${agent ?? 'api'}] ${text}`;
    if (from === 'human') return away && username === undefined && agent === undefined ? `⌨️ ${text}` : null;
    const question = asked === undefined ? null : await store.message(asked);
    const isFromKeyboard = question?.from === 'human' && question.username === undefined;
    return isFromKeyboard && !away ? null : text || '(done, without a word)';
  }

  /** Says of prompts that were shown how they failed. */
  async #correct(): Promise<void> {
    const { store, state } = this.deps;
    for (const prompt of state.open) {
      const { state: now } = (await store.prompt(prompt.id)) ?? { state: 'answered' };
      if (now === 'failed' || now === 'withdrawn') await this.#sayFailed(prompt);
      if (now === 'failed' || now === 'withdrawn' || now === 'answered') state.ended(prompt.id);
    }
  }

  async #sayFailed({ id, session, message, text }: ShownPrompt): Promise<void> {
    const { store, topics, config } = this.deps;
    const line = await store.message(id);
    const what = line?.status === 'interrupted' ? 'interrupted' : `not delivered: ${line?.error ?? 'withdrawn'}`;
    if (message === null) {
      if (config.session(session)) await this.#orSkip(() => topics.say(session, `⚠️ ${what}`));
      return;
    }
    const note = `\n\n⚠️ ${cutTo(what, 500)}`;
    await this.#orSkip(() => topics.replace(message, `${cutTo(text, PIECE_LIMIT - note.length)}${note}`));
  }

  /** What the chat refuses for good must not keep back what comes after it. */
  async #orSkip<T>(say: () => Promise<T>): Promise<T | null> {
    try {
      return await say();
    } catch (error) {
      if (!isFinal(error)) throw error;
      // It may be refused every second.
      if (error.description !== this.#refused) this.deps.log('chat_refused', { because: error.description });
      this.#refused = error.description;
      return null;
    }
  }
}
