import { Refusal } from '../../core/refusal.ts';
import { Wakeup, withLimit } from '../../core/wait.ts';
import type { SessionStatus } from '../../core/ports/session.ts';
import type { Chat, ChatDeps } from '../../protocols/control/chat.ts';
import { pngInBackground } from '../../sessions/picture/background.ts';
import { TelegramApi } from './api.ts';
import { Incoming } from './incoming.ts';
import { removeRecordings } from './media.ts';
import { Outgoing } from './outgoing.ts';
import { ChatQuestions } from './questions.ts';
import { ChatState } from './state.ts';
import { TelegramSurface } from './surface.ts';
import { Topics } from './topics.ts';

/** How often settings and open questions are read. */
const LOOK_MS = 1000;
/** How long a stopping server waits for calls under way. */
const CLOSE_MS = 500;
const ROOT_VARIABLE = 'CCC_TELEGRAM_API_ROOT';

interface BotSettings {
  token: string;
  user: number;
  group: number;
  root: string;
}

/** For tests. */
export interface BridgeOptions {
  transcribeMs?: number;
  draw?: (styled: string) => Promise<Uint8Array>;
}

/** Shows sessions in Telegram while `bot_token` and `chat_id` are in the file. A change of the file needs no restart. */
export async function openTelegram(deps: ChatDeps, options: BridgeOptions = {}): Promise<Chat> {
  const bridge = new TelegramBridge(deps, options);
  await bridge.open();
  return bridge;
}

class TelegramBridge implements Chat {
  #chat: TelegramChat | null = null;
  /** The settings of the open chat. */
  #settings = '';
  #renewing: Promise<void> = Promise.resolve();
  #trouble = '';
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor(
    readonly deps: ChatDeps,
    readonly options: BridgeOptions,
  ) {}

  async open(): Promise<void> {
    this.#renewing = this.#renew();
    try {
      await this.#renewing;
      this.#trouble = '';
    } catch (error) {
      const because = error instanceof Error ? error.message : String(error);
      if (because !== this.#trouble) this.deps.log('chat_trouble', { because });
      this.#trouble = because;
    }
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.open(), LOOK_MS);
  }

  changed(): void {
    this.#chat?.look();
  }

  continued(session: string, agent: string): void {
    this.#chat?.notice(session, `🔄 [${agent}] Session continued`);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    const closing = this.#renewing.catch(() => {}).then(() => this.#chat?.close());
    await withLimit(closing, CLOSE_MS);
  }

  async #renew(): Promise<void> {
    const { config, env } = this.deps;
    const { bot_token: token, chat_id: user, group_id: group, api_root: root } = config.readOrLast();
    const settings: BotSettings = { token, user, group, root: env[ROOT_VARIABLE] || root };
    const text = JSON.stringify(settings);
    if (text === this.#settings || this.#isClosed) return;
    this.#settings = '';
    await this.#chat?.close();
    this.#chat = null;
    if (token !== '' && user !== 0) {
      const chat = new TelegramChat(this.deps, settings, this.options);
      await chat.open();
      this.#chat = chat;
    }
    this.#settings = text;
  }
}

/** One bot, with its chat. */
class TelegramChat {
  readonly #api: TelegramApi;
  readonly #outgoing: Outgoing;
  readonly #incoming: Incoming;
  readonly #questions: ChatQuestions;
  readonly #surface: TelegramSurface;
  readonly #statuses = new Map<string, SessionStatus>();
  readonly #wakeup = new Wakeup();
  /** The check for questions that is under way, by session. */
  readonly #asking = new Map<string, Promise<void>>();
  /** The last error of showing a question: it is tried every second, but logged once. */
  #askTrouble = '';
  #unwatch = (): void => {};
  #running: Promise<unknown> = Promise.resolve();

  constructor(
    readonly deps: ChatDeps,
    readonly settings: BotSettings,
    options: BridgeOptions,
  ) {
    const { config, log } = deps;
    const { token, user, group, root } = settings;
    const state = new ChatState(config.folder, token, group);
    const api = new TelegramApi({ token, root, log });
    const topics = new Topics({ api, config, group });
    const parts = { ...deps, api, state, topics };
    this.#api = api;
    this.#outgoing = new Outgoing(parts);
    this.#questions = new ChatQuestions(parts);
    this.#surface = new TelegramSurface({ ...parts, folder: config.folder, token });
    this.#incoming = new Incoming({
      ...parts,
      draw: pngInBackground,
      ...options,
      questions: this.#questions,
      surface: this.#surface,
      user,
      group,
    });
  }

  async open(): Promise<void> {
    removeRecordings(this.deps.config);
    await this.#outgoing.open();
    this.#surface.open();
    this.#questions.open();
    this.#unwatch = this.deps.control.watch([], (session, state) => {
      this.#statuses.set(session, state?.status ?? 'stopped');
      this.#wakeup.notify();
    });
    this.#running = Promise.all([this.#incoming.run(), this.settings.group === 0 ? null : this.#show()]);
  }

  look(): void {
    this.#wakeup.notify();
  }

  notice(session: string, text: string): void {
    this.#outgoing.notice(session, text);
    this.#wakeup.notify();
  }

  /** Returns when nothing is under way. Finishes a command that has begun. */
  async close(): Promise<void> {
    this.#unwatch();
    const surface = this.#surface.close();
    this.#api.close();
    this.#wakeup.notify();
    this.#wakeup.close();
    await Promise.all([this.#running, surface]);
    await Promise.all(this.#asking.values());
  }

  /** Shows new history and questions until the chat is closed. */
  async #show(): Promise<void> {
    let pause = 0;
    while (!this.#api.isClosed) {
      try {
        await this.#outgoing.flush();
        for (const [name] of this.deps.config.sessions()) this.#ask(name);
        pause = 0;
        this.#wakeup.notifyIn(LOOK_MS);
        await this.#wakeup.next();
      } catch (error) {
        if (this.#api.isClosed) return;
        if (pause === 0) this.deps.log('chat_trouble', { because: this.#api.because(error) });
        pause = await this.#api.pause(error, pause);
      }
    }
  }

  /** Checks one session for questions in the background: a host that does not answer must not delay other sessions. */
  #ask(session: string): void {
    if (this.#asking.has(session)) return;
    const asking = this.#questions
      .show(session, this.#statuses.get(session) === 'waiting')
      .catch((error: unknown) => {
        if (error instanceof Refusal || this.#api.isClosed) return;
        const because = this.#api.because(error);
        if (because !== this.#askTrouble) this.deps.log('chat_trouble', { because });
        this.#askTrouble = because;
      })
      .finally(() => this.#asking.delete(session));
    this.#asking.set(session, asking);
  }
}
