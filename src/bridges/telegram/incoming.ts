import type { Message, Update, User } from 'grammy/types';
import type { SessionStore } from '../../core/ports/session-store.ts';
import type { Log } from '../../core/service.ts';
import { Refusal } from '../../core/refusal.ts';
import type { TelegramApi } from './api.ts';
import { chatCommand } from './commands.ts';
import type { ChatCommandDeps } from './commands.ts';
import { photoPrompt, voicePrompt } from './media.ts';
import type { MediaPrompt } from './media.ts';
import type { ChatQuestions } from './questions.ts';
import type { ChatState } from './state.ts';
import type { TelegramSurface } from './surface.ts';
import type { ChatPlace, Topics } from './topics.ts';

/** Prompts of an earlier run that are looked through for one that was stored already. */
const LOOK_BACK = 200;

export interface IncomingDeps extends ChatCommandDeps {
  api: TelegramApi;
  store: SessionStore;
  state: ChatState;
  topics: Topics;
  questions: ChatQuestions;
  surface: TelegramSurface;
  /** The user who is heard, and their group. */
  user: number;
  group: number;
  publish: () => Promise<void>;
  now: () => number;
  transcribeMs?: number;
  log: Log;
}

/**
 * What the user writes and presses. Only one user is heard. An update is stored before the chat hears that we have it, and dropped when it
 * was handled, so none is lost and none counts twice.
 */
export class Incoming {
  /** By session: its prompts keep their order. */
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(readonly deps: IncomingDeps) {}

  /** Listens until the chat is closed. */
  async run(): Promise<void> {
    const { api, state, log } = this.deps;
    for (const update of state.pending) this.#begin(update, true);
    let pause = 0;
    while (!api.isClosed) {
      try {
        const updates = await api.updates(state.offset);
        pause = 0;
        if (api.isClosed) break;
        state.received(updates);
        for (const update of updates) this.#begin(update, false);
      } catch (error) {
        if (api.isClosed) break;
        if (pause === 0) log('chat_poll_trouble', { because: api.because(error) });
        pause = await api.pause(error, pause);
      }
    }
  }

  #begin(update: Update, isAgain: boolean): void {
    const { api, state, log } = this.deps;
    void this.#handle(update, isAgain)
      .catch((error: unknown) => log('chat_trouble', { because: api.because(error) }))
      .finally(() => {
        // What was cut off by our end is handled by the next run.
        if (!api.isClosed) state.handled(update);
      });
  }

  async #handle({ update_id: id, message, callback_query: query }: Update, isAgain: boolean): Promise<void> {
    if (query) {
      const chat = query.message?.chat.id ?? 0;
      if (this.#isHeard(query.from, chat)) await this.deps.questions.press(query, nameOf(query.from));
      return;
    }
    if (!message?.from || !this.#isHeard(message.from, message.chat.id)) return;
    const topic = message.is_topic_message ? message.message_thread_id : undefined;
    const place = { chat: message.chat.id, topic };
    const session = message.chat.id === this.deps.group ? this.deps.topics.sessionIn(topic) : null;
    const who = nameOf(message.from);
    if (message.text?.startsWith('/')) {
      const said = await this.#orSay(() => chatCommand(this.deps, message.text ?? '', session, who));
      await this.deps.topics.sayAt(place, said);
      return;
    }
    const isPrompt = message.text ?? message.voice ?? message.audio ?? message.photo ?? message.document;
    if (!isPrompt) return;
    if (session === null) {
      const said = message.chat.id === this.deps.user ? await this.deps.surface.post(message) : null;
      if (said !== '') await this.deps.topics.sayAt(place, said ?? 'write in the topic of a session; see /help');
      return;
    }
    await this.#inTurn(session, () => this.#prompt({ id, message, session, who, place, isAgain }));
  }

  async #prompt({ id, message, session, who, place, isAgain }: Incame): Promise<void> {
    const { control, store, topics, questions } = this.deps;
    if (isAgain) {
      const lines = await store.history({ session, limit: LOOK_BACK, from: 'human' });
      if (lines.some(({ update_id: stored }) => stored === id)) return;
    }
    const replied = message.reply_to_message?.message_id;
    const answered = replied !== undefined && message.text ? await questions.reply(replied, message.text, who) : null;
    if (answered !== null) {
      await topics.sayAt(place, answered);
      return;
    }
    let prompt: MediaPrompt;
    try {
      prompt = await this.#read(message, session);
    } catch (error) {
      if (this.deps.api.isClosed) throw error;
      await this.#failed(message, session, who, id, this.#because(error));
      return;
    }
    const fields = { ...prompt.fields, update_id: id };
    // How it ends is said by what follows the history.
    await control.send({ session, text: prompt.text, from: 'human', username: who, deadline: null, fields });
  }

  #read(message: Message, session: string): Promise<MediaPrompt> {
    if (message.photo) return photoPrompt(this.deps, session, message);
    if (message.voice ?? message.audio) return voicePrompt(this.deps, message);
    if (message.text === undefined)
      throw new Refusal('invalid_request', 'files are not taken; send text, voice or a photo');
    return Promise.resolve({ text: message.text, fields: {} });
  }

  /** Said in the chat, and stored. */
  async #failed(message: Message, session: string, who: string, id: number, because: string): Promise<void> {
    const { store, topics, publish, now } = this.deps;
    const type = message.photo ? ('photo' as const) : message.document ? ('document' as const) : ('voice' as const);
    const line = { session, ts: Math.floor(now() / 1000), from: 'human' as const, username: who, type, update_id: id };
    const caption = message.caption === undefined ? {} : { caption: message.caption };
    await store.record({ ...line, ...caption, text: message.caption ?? '', status: 'failed', error: because });
    await publish();
    await topics.say(session, `⚠️ ${because}`);
  }

  /** The user in their private chat, or in their group. */
  #isHeard(from: User, chat: number): boolean {
    const { user, group } = this.deps;
    return chat === user || (from.id === user && chat === group);
  }

  #inTurn(session: string, act: () => Promise<void>): Promise<void> {
    const done = (this.#turns.get(session) ?? Promise.resolve()).then(act);
    this.#turns.set(
      session,
      done.catch(() => {}),
    );
    return done;
  }

  async #orSay(act: () => Promise<string>): Promise<string> {
    try {
      return await act();
    } catch (error) {
      return this.#because(error);
    }
  }

  /** A refusal has words for people. Anything else is our bug, or the chat's. */
  #because(error: unknown): string {
    if (error instanceof Refusal) return error.message;
    this.deps.log('chat_trouble', { because: this.deps.api.because(error) });
    return 'it failed; see the log of the server';
  }
}

interface Incame {
  id: number;
  message: Message;
  session: string;
  who: string;
  place: ChatPlace;
  /** An earlier run may have handled it. */
  isAgain: boolean;
}

function nameOf({ username, first_name: name, id }: User): string {
  return username ?? (name || String(id));
}
