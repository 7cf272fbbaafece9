import { InputFile } from 'grammy/web';
import { Refusal } from '../../core/refusal.ts';
import { holdLock } from '../../platform/lock-file.ts';
import type { ControlFile } from '../../protocols/control/config.ts';
import type { TelegramApi } from './api.ts';
import { isFinal, isTopicGone } from './api.ts';
import { cutTo, piecesOf } from './pieces.ts';

const NAME_LIMIT = 128;
const LOCK_PAUSE_MS = 50;

/** Where something is said: a chat, and a topic in it. */
export interface ChatPlace {
  chat: number;
  topic?: number | undefined;
}

export interface TopicDeps {
  api: TelegramApi;
  config: ControlFile;
  group: number;
}

export interface Buttons {
  inline_keyboard: { text: string; callback_data: string }[][];
}

/** A page that an answer names is not fetched by the chat: its address could carry away what the session knows. */
const NO_PREVIEW = { link_preview_options: { is_disabled: true } };

/** The topic of each session, in the group of the user. A topic is made once, also by two processes; one that was deleted is made again. */
export class Topics {
  constructor(readonly deps: TopicDeps) {}

  /** The session of this topic. */
  sessionIn(topic: number | undefined): string | null {
    if (topic === undefined) return null;
    const found = this.deps.config.sessions().find(([, entry]) => entry.topic_id === topic);
    return found?.[0] ?? null;
  }

  /** Makes the topic of a session if it has none, or if `gone` is the one that it has. */
  async ensure(session: string, gone = 0): Promise<number> {
    const known = this.#known(session, gone);
    if (known) return known;
    const { api, config, group } = this.deps;
    for (;;) {
      if (api.isClosed) throw new Refusal('unreachable', 'the chat is closed');
      const lock = holdLock(`${config.folder}/topics.lock`);
      if (lock) {
        try {
          const made = this.#known(session, gone);
          if (made) return made;
          const name = cutTo(session, NAME_LIMIT);
          // Without the signal: a call that our end cuts off would leave a topic that nobody knows.
          const topic = await api.now((one) => one.createForumTopic(group, name));
          config.setTopic(session, topic.message_thread_id);
          return topic.message_thread_id;
        } finally {
          lock.release();
        }
      }
      await Bun.sleep(LOCK_PAUSE_MS);
    }
  }

  /** Says it in the topic of a session. The id of its first message. */
  async say(session: string, text: string, buttons?: Buttons): Promise<number> {
    const { group } = this.deps;
    const topic = await this.ensure(session);
    try {
      return await this.sayAt({ chat: group, topic }, text, buttons);
    } catch (error) {
      if (!isTopicGone(error)) throw error;
      return this.sayAt({ chat: group, topic: await this.ensure(session, topic) }, text, buttons);
    }
  }

  /** Says it when it is its turn; nobody waits for it. */
  saySoon(session: string, text: string): void {
    this.#owned(this.say(session, text));
  }

  /** Says it whole, in as many messages as it takes; buttons are on the last one. The id of the first. */
  async sayAt({ chat, topic }: ChatPlace, text: string, buttons?: Buttons): Promise<number> {
    let first = 0;
    // The chat refuses a message without a word, and one with half a character.
    const pieces = piecesOf(text.toWellFormed()).filter((piece) => piece.trim() !== '');
    if (pieces.length === 0) pieces.push('(nothing)');
    for (const [at, piece] of pieces.entries()) {
      const other = {
        ...NO_PREVIEW,
        ...(topic !== undefined && { message_thread_id: topic }),
        ...(buttons && at === pieces.length - 1 && { reply_markup: buttons }),
      };
      const sent = await this.deps.api.inTurn(chat, (api, signal) => api.sendMessage(chat, piece, other, signal));
      first ||= sent.message_id;
    }
    return first;
  }

  /** Shows a picture, or says its text where the chat does not take it. */
  async showAt({ chat, topic }: ChatPlace, { png, text }: { png: Uint8Array; text: string }): Promise<void> {
    const { api } = this.deps;
    const file = new InputFile(png, 'screen.png');
    const other = topic === undefined ? {} : { message_thread_id: topic };
    try {
      await api.inTurn(chat, (one, signal) => one.sendPhoto(chat, file, other, signal));
    } catch (error) {
      if (!isFinal(error)) throw error;
      await this.sayAt({ chat, topic }, text);
    }
  }

  /** Replaces a message in the group. Without buttons it loses those that it had. */
  async replace(message: number, text: string, buttons?: Buttons): Promise<void> {
    const { api, group } = this.deps;
    const other = { ...NO_PREVIEW, ...(buttons && { reply_markup: buttons }) };
    await api.inTurn(group, (one, signal) => one.editMessageText(group, message, text.toWellFormed(), other, signal));
  }

  /** The same when it is its turn; nobody waits for it. `end` is called when the chat has taken it, or refused it for good. */
  replaceSoon(message: number, text: string, buttons?: Buttons, end = (): void => {}): void {
    this.#owned(this.replace(message, text, buttons), end);
  }

  #owned(saying: Promise<unknown>, end = (): void => {}): void {
    const { api } = this.deps;
    saying
      .catch((error: unknown) => {
        if (!isFinal(error)) throw error;
        api.options.log('chat_refused', { because: error.description });
      })
      .then(end)
      .catch((error: unknown) => {
        if (!api.isClosed) api.options.log('chat_trouble', { because: api.because(error) });
      });
  }

  #known(session: string, gone: number): number {
    const topic = this.deps.config.session(session)?.topic_id ?? 0;
    return topic === gone ? 0 : topic;
  }
}
