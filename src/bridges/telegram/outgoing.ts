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
 * Shows the history of each session in its topic. It reads the store, so lines from while the chat was down are shown later, in order. If
 * a shown prompt fails, its message is corrected.
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

  /** Shows all new lines. */
  async flush(): Promise<void> {
    const { config, topics } = this.deps;
    for (const [name] of config.sessions()) {
      // Telegram may refuse the topic because of its name: skip only this session.
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

  /** The text for a line; null if it is not shown. Lines typed at the keyboard are shown only while the user is away. */
  async #textOf({ from, text, agent, username, reply_to: asked }: SessionMessage): Promise<string | null> {
    const { config, store } = this.deps;
    const { away } = config.readOrLast();
    if (from === 'api') return `🤖 [${agent ?? 'api'}] ${text}`;
    if (from === 'human') return away && username === undefined && agent === undefined ? `⌨️ ${text}` : null;
    const question = asked === undefined ? null : await store.message(asked);
    const isFromKeyboard = question?.from === 'human' && question.username === undefined;
    return isFromKeyboard && !away ? null : text || '(done, without a word)';
  }

  /** Corrects the messages of shown prompts that failed. */
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

  /** Skips a call that the chat refuses for good, so that later ones are sent. */
  async #orSkip<T>(say: () => Promise<T>): Promise<T | null> {
    try {
      return await say();
    } catch (error) {
      if (!isFinal(error)) throw error;
      // The same call may be refused every second: log it once.
      if (error.description !== this.#refused) this.deps.log('chat_refused', { because: error.description });
      this.#refused = error.description;
      return null;
    }
  }
}
