import { InputFile } from 'grammy/web';
import { Refusal } from '../../core/refusal.ts';
import { holdLock } from '../../platform/lock-file.ts';
import type { ControlFile } from '../../protocols/control/config.ts';
import type { TelegramApi } from './api.ts';
import { isFinal, isTopicGone, isUnchanged } from './api.ts';
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
      return firstOf(await this.sayAt({ chat: group, topic }, text, buttons));
    } catch (error) {
      if (!isTopicGone(error)) throw error;
      return firstOf(await this.sayAt({ chat: group, topic: await this.ensure(session, topic) }, text, buttons));
    }
  }

  /** Says it when it is its turn; nobody waits for it. */
  saySoon(session: string, text: string): void {
    this.#owned(this.say(session, text));
  }

  /** Says it whole, in as many messages as it takes; buttons are on the last one. Their ids. */
  async sayAt({ chat, topic }: ChatPlace, text: string, buttons?: Buttons): Promise<number[]> {
    const said: number[] = [];
    const pieces = sayable(text);
    for (const [at, piece] of pieces.entries()) {
      const other = {
        ...NO_PREVIEW,
        ...(topic !== undefined && { message_thread_id: topic }),
        ...(buttons && at === pieces.length - 1 && { reply_markup: buttons }),
      };
      const sent = await this.deps.api.inTurn(chat, (api, signal) => api.sendMessage(chat, piece, other, signal));
      said.push(sent.message_id);
    }
    return said;
  }

  /** Shows a picture. It is tried once, as nothing else is said in this chat meanwhile; then its text is said. */
  async showAt({ chat, topic }: ChatPlace, { png, text }: { png: Uint8Array; text: string }): Promise<void> {
    const { api } = this.deps;
    const file = new InputFile(png, 'screen.png');
    const other = topic === undefined ? {} : { message_thread_id: topic };
    try {
      await api.onceInTurn(chat, (one, signal) => one.sendPhoto(chat, file, other, signal));
    } catch (error) {
      if (api.isClosed) throw error;
      api.options.log('chat_refused', { because: api.because(error) });
      await this.sayAt({ chat, topic }, text);
    }
  }

  /** Replaces what was said in these messages. False: it takes more or fewer of them, or the chat does not take it. */
  async replaceAt(chat: number, messages: readonly number[], text: string): Promise<boolean> {
    const pieces = sayable(text);
    if (pieces.length !== messages.length) return false;
    for (const [at, message] of messages.entries()) {
      const piece = pieces[at] ?? '';
      try {
        await this.deps.api.inTurn(chat, (api, signal) =>
          api.editMessageText(chat, message, piece, NO_PREVIEW, signal),
        );
      } catch (error) {
        if (!isFinal(error)) throw error;
        if (!isUnchanged(error)) return false;
      }
    }
    return true;
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

/** In pieces that the chat takes: it refuses a message without a word, and one with half a character. */
function sayable(text: string): string[] {
  const pieces = piecesOf(text.toWellFormed()).filter((piece) => piece.trim() !== '');
  return pieces.length > 0 ? pieces : ['(nothing)'];
}

function firstOf(messages: readonly number[]): number {
  return messages[0] ?? 0;
}
