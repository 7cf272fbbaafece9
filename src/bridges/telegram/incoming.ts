import type { Message, Update, User } from 'grammy/types';
import type { SessionStore } from '../../core/ports/session-store.ts';
import { Refusal } from '../../core/refusal.ts';
import { isFinal } from './api.ts';
import type { TelegramApi } from './api.ts';
import { beforeCommand, commandIn, runCommand } from './commands.ts';
import type { ChatAnswer, ChatCommand, ChatCommandDeps } from './commands.ts';
import { photoPrompt, voicePrompt } from './media.ts';
import type { MediaPrompt } from './media.ts';
import type { ChatQuestions } from './questions.ts';
import type { ChatState } from './state.ts';
import type { TelegramSurface } from './surface.ts';
import type { ChatPlace, Topics } from './topics.ts';

/** How many prompts of an earlier run are searched for one that was stored already. */
const LOOK_BACK = 200;
/** Attempts to store a prompt or to enter an answer, with a longer pause after each. */
const TRIES = 3;

export interface IncomingDeps extends ChatCommandDeps {
  api: TelegramApi;
  store: SessionStore;
  state: ChatState;
  topics: Topics;
  questions: ChatQuestions;
  surface: TelegramSurface;
  /** The only user whose messages count, and their group. */
  user: number;
  group: number;
  publish: () => Promise<void>;
  now: () => number;
  transcribeMs?: number;
}

/**
 * Handles what the user writes and presses; ignores every other user. An update is stored before we confirm it to Telegram, and dropped
 * after it was handled, so none is lost. After a kill, the next run finds out what was done:
 *
 * - A prompt has the id of its update in the history.
 * - A command that changes something is stored before it acts, with the state it finds, and again with its answer.
 * - A button is for one dialog, and names a choice, not a change.
 *
 * An answer in the chat may be sent twice.
 */
export class Incoming {
  /** The last prompt of each session, so that prompts keep their order. */
  readonly #turns = new Map<string, Promise<unknown>>();
  readonly #work = new Set<Promise<void>>();

  constructor(readonly deps: IncomingDeps) {}

  /** Listens until the chat is closed. */
  async run(): Promise<void> {
    const { api, state, log } = this.deps;
    for (const update of state.pending) this.#begin(update, true);
    let pause = 0;
    while (!api.isClosed) {
      try {
        const updates = await api.updates(state.offset);
        if (api.isClosed) break;
        const heard = updates.filter((update) => this.#isHeard(update));
        state.received(updates, heard);
        for (const update of heard) this.#begin(update, false);
        pause = 0;
      } catch (error) {
        if (api.isClosed) break;
        if (pause === 0) log('chat_poll_trouble', { because: api.because(error) });
        pause = await api.pause(error, pause);
      }
    }
    // Another chat may continue with the pending updates, so finish those under way first.
    await Promise.all(this.#work);
  }

  #begin(update: Update, isAgain: boolean): void {
    const work = this.#untilHandled(update, isAgain).finally(() => this.#work.delete(work));
    this.#work.add(work);
  }

  async #untilHandled(update: Update, isAgain: boolean): Promise<void> {
    const { api, state, log } = this.deps;
    try {
      if (this.#isHeard(update)) await this.#handle(update, isAgain);
    } catch (error) {
      if (!api.isClosed) await this.#sayFailed(update, error);
    }
    // The next run handles updates that our end interrupted.
    if (api.isClosed) return;
    try {
      state.handled(update);
    } catch (error) {
      log('chat_trouble', { because: api.because(error) });
    }
  }

  /** Tells the user that an update failed. If the chat does not accept that either, logs it. */
  async #sayFailed({ message, callback_query: query }: Update, error: unknown): Promise<void> {
    const { api, topics, log } = this.deps;
    log('chat_trouble', { because: api.because(error) });
    const about = message ?? query?.message;
    if (!about || isFinal(error)) return;
    const because = error instanceof Refusal ? error.message : `it failed; ${query ? 'press' : 'send'} it again`;
    try {
      await topics.sayAt(placeOf(about), `⚠️ ${because}`);
    } catch (refusal) {
      if (!api.isClosed) log('chat_trouble', { because: api.because(refusal) });
    }
  }

  async #handle({ update_id: id, message, callback_query: query }: Update, isAgain: boolean): Promise<void> {
    const { questions, topics, group } = this.deps;
    if (query) return this.#tried(() => questions.press(query, nameOf(query.from)));
    if (!message?.from) return;
    const place = placeOf(message);
    const session = message.chat.id === group ? topics.sessionIn(place.topic) : null;
    const who = nameOf(message.from);
    const command = commandIn(message.text ?? '', session, who);
    if (command) {
      const said = await this.#command(id, command);
      if (typeof said === 'string') await topics.sayAt(place, said);
      else await topics.showAt(place, said);
      return;
    }
    if (!isForSession(message)) return;
    if (session === null) {
      const said = message.chat.id === this.deps.user ? await this.deps.surface.post(message) : null;
      if (said !== '') await topics.sayAt(place, said ?? 'write in the topic of a session; see /help');
      return;
    }
    await this.#inTurn(session, () => this.#prompt({ id, message, session, who, place, isAgain }));
  }

  /** Runs a command once over all runs, and returns its answer. */
  async #command(id: number, command: ChatCommand): Promise<ChatAnswer> {
    const { state } = this.deps;
    const begun = state.begun(id);
    if (begun && begun.said !== null) return begun.said;
    return this.#orSay(async () => {
      const before = begun?.before ?? (await beforeCommand(this.deps, command));
      if (before === null) return runCommand(this.deps, command, { before: '', isAgain: false });
      state.begin(id, { before, said: null });
      const said = await this.#orSay(() => runCommand(this.deps, command, { before, isAgain: begun !== null }));
      state.begin(id, { before, said: typeof said === 'string' ? said : said.text });
      return said;
    });
  }

  async #prompt(written: WrittenMessage): Promise<void> {
    const { message, session } = written;
    if (written.isAgain && (await this.#tried(() => this.#isStored(written)))) return;
    let prompt: MediaPrompt;
    try {
      prompt = await this.#read(message, session);
    } catch (error) {
      if (this.deps.api.isClosed) throw error;
      await this.#failed(written, this.#because(error));
      return;
    }
    await this.#tried(async (isAgain) => {
      if (!isAgain || !(await this.#isStored(written))) await this.#enter(written, prompt);
    });
  }

  async #isStored({ id, session }: WrittenMessage): Promise<boolean> {
    const lines = await this.deps.store.history({ session, limit: LOOK_BACK, from: 'human' });
    return lines.some(({ update_id: stored }) => stored === id);
  }

  /** Enters a text as the answer to a question, or as a prompt. */
  async #enter({ id, message, session, who, place }: WrittenMessage, prompt: MediaPrompt): Promise<void> {
    const { api, control, topics, questions } = this.deps;
    const replied = message.photo ? undefined : message.reply_to_message?.message_id;
    const answered = replied === undefined ? null : await questions.reply(replied, prompt.text, who);
    if (answered !== null) {
      await topics.sayAt(place, answered);
      return;
    }
    const fields = { ...prompt.fields, update_id: id };
    try {
      // The part that shows the history also shows how the prompt ends.
      await control.send({ session, text: prompt.text, from: 'human', username: who, deadline: null, fields });
      if (questions.isAsking(session))
        topics.saySoon(session, '⏳ waits until the question is answered; to answer it, reply to it');
    } catch (error) {
      if (api.isClosed || !(error instanceof Refusal)) throw error;
      await topics.sayAt(place, `⚠️ ${error.message}`);
    }
  }

  async #read(message: Message, session: string): Promise<MediaPrompt> {
    const { topics } = this.deps;
    if (message.photo) return photoPrompt(this.deps, session, message);
    if (message.voice ?? message.audio) {
      topics.saySoon(session, '🎤 Transcribing…');
      const prompt = await voicePrompt(this.deps, message);
      topics.saySoon(session, `📝 ${prompt.text}`);
      return prompt;
    }
    if (message.text === undefined)
      throw new Refusal('invalid_request', 'files are not taken; send text, voice or a photo');
    return { text: message.text, fields: {} };
  }

  /** Stores a failed message in the history and tells the user. */
  async #failed(written: WrittenMessage, because: string): Promise<void> {
    const { id, message, session, who } = written;
    const { store, topics, publish, now } = this.deps;
    const isVoice = message.voice ?? message.audio;
    const type = message.photo ? ('photo' as const) : isVoice ? ('voice' as const) : ('document' as const);
    const line = { session, ts: Math.floor(now() / 1000), from: 'human' as const, username: who, type, update_id: id };
    const caption = message.caption === undefined ? {} : { caption: message.caption };
    await this.#tried(async (isAgain) => {
      if (isAgain && (await this.#isStored(written))) return;
      await store.record({ ...line, ...caption, text: message.caption ?? '', status: 'failed', error: because });
    });
    await publish();
    await topics.say(session, `⚠️ ${because}`);
  }

  /** Is the update from the user, in their private chat or group? */
  #isHeard({ message, callback_query: query }: Update): boolean {
    const { user, group } = this.deps;
    const from = (query ?? message)?.from?.id;
    const chat = (query ? query.message : message)?.chat.id;
    return from !== undefined && (chat === user || (from === user && chat === group));
  }

  #inTurn(session: string, act: () => Promise<void>): Promise<void> {
    const done = (this.#turns.get(session) ?? Promise.resolve()).then(act);
    this.#turns.set(
      session,
      done.catch(() => {}),
    );
    return done;
  }

  /** Repeats `act` after an unknown error. A refusal, also by Telegram, is final. */
  async #tried<T>(act: (isAgain: boolean) => Promise<T>): Promise<T> {
    const { api, log } = this.deps;
    let pause = 0;
    for (let tries = 1; ; tries += 1) {
      try {
        return await act(tries > 1);
      } catch (error) {
        if (api.isClosed || error instanceof Refusal || isFinal(error) || tries === TRIES) throw error;
        if (tries === 1) log('chat_trouble', { because: api.because(error) });
        pause = await api.pause(error, pause);
      }
    }
  }

  /** The result of `act`, or the reason why it failed. Throws if our end interrupted it: the next run repeats it. */
  async #orSay(act: () => Promise<ChatAnswer>): Promise<ChatAnswer> {
    try {
      return await act();
    } catch (error) {
      if (this.deps.api.isClosed) throw error;
      return this.#because(error);
    }
  }

  /** The reason for the user. Only a refusal has a text for people; anything else is a bug of ours or an error of Telegram. */
  #because(error: unknown): string {
    if (error instanceof Refusal) return error.message;
    this.deps.log('chat_trouble', { because: this.deps.api.because(error) });
    return 'it failed; see the log of the server';
  }
}

type PlacedMessage = Pick<Message, 'chat' | 'is_topic_message' | 'message_thread_id'>;

interface WrittenMessage {
  id: number;
  message: Message;
  session: string;
  who: string;
  place: ChatPlace;
  /** An earlier run may have handled it. */
  isAgain: boolean;
}

/** Did a person write or send something? Telegram's own notices are not for a session. */
function isForSession({ text, photo, voice, audio, document, video, video_note: note, sticker }: Message): boolean {
  return [text, photo, voice, audio, document, video, note, sticker].some((part) => part !== undefined);
}

function placeOf({ chat, is_topic_message: isInTopic, message_thread_id: topic }: PlacedMessage): ChatPlace {
  return { chat: chat.id, topic: isInTopic ? topic : undefined };
}

function nameOf({ username, first_name: name, id }: User): string {
  return username ?? (name || String(id));
}
