import { InputFile } from 'grammy/web';
import { Refusal } from '../../core/refusal.ts';
import { holdLock } from '../../platform/lock-file.ts';
import type { ControlFile } from '../../protocols/control/config.ts';
import type { TelegramApi } from './api.ts';
import { isFinal, isTopicGone, isUnchanged } from './api.ts';
import { cutTo, piecesOf } from './pieces.ts';

const NAME_LIMIT = 128;
const LOCK_PAUSE_MS = 50;

/** A place for a message: a chat, and a topic in it. */
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

/** Telegram must not fetch pages that an answer names: their addresses could leak what the session knows. */
const NO_PREVIEW = { link_preview_options: { is_disabled: true } };

/** The topic of each session in the user's group. It is made once, even by two processes, and again if it was deleted. */
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
          // Without the abort signal: an aborted call could leave a topic that we do not know.
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

  /** Sends a text to the topic of a session. Returns the id of its first message. */
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

  /** Sends a text in the background. */
  saySoon(session: string, text: string): void {
    this.#owned(this.say(session, text));
  }

  /** Sends the whole text in as many messages as needed, with buttons on the last. Returns their ids. */
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

  /** Sends a picture with one attempt, because it blocks the chat; if that fails, sends its text. */
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

  /** Replaces the text of these messages. False if it needs more or fewer messages, or the chat refuses it. */
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

  /** Replaces a message in the group. Without `buttons`, removes its buttons. */
  async replace(message: number, text: string, buttons?: Buttons): Promise<void> {
    const { api, group } = this.deps;
    const other = { ...NO_PREVIEW, ...(buttons && { reply_markup: buttons }) };
    await api.inTurn(group, (one, signal) => one.editMessageText(group, message, text.toWellFormed(), other, signal));
  }

  /** Replaces a message in the background. `end` is called when the chat has accepted it or refused it for good. */
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

/** The text in pieces that Telegram accepts: it refuses blank messages and half characters. */
function sayable(text: string): string[] {
  const pieces = piecesOf(text.toWellFormed()).filter((piece) => piece.trim() !== '');
  return pieces.length > 0 ? pieces : ['(nothing)'];
}

function firstOf(messages: readonly number[]): number {
  return messages[0] ?? 0;
}
