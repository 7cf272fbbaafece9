import { Refusal } from '../../core/refusal.ts';
import { Wakeup, withLimit } from '../../core/wait.ts';
import type { SessionStatus } from '../../core/ports/session.ts';
import type { Chat, ChatDeps } from '../../protocols/control/chat.ts';
import { TelegramApi } from './api.ts';
import { Incoming } from './incoming.ts';
import { Outgoing } from './outgoing.ts';
import { ChatQuestions } from './questions.ts';
import { ChatState } from './state.ts';
import { TelegramSurface } from './surface.ts';
import { Topics } from './topics.ts';

/** How often settings are read, and sessions that ask are looked at. */
const LOOK_MS = 1000;
/** How long a close waits for a call that is under way. */
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
}

/** Shows sessions in Telegram while `bot_token` and `chat_id` are in the file. A change of the file needs no restart. */
export async function openTelegram(deps: ChatDeps, options: BridgeOptions = {}): Promise<Chat> {
  const bridge = new TelegramBridge(deps, options);
  await bridge.open();
  return bridge;
}

class TelegramBridge implements Chat {
  #chat: TelegramChat | null = null;
  #settings = '';
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor(
    readonly deps: ChatDeps,
    readonly options: BridgeOptions,
  ) {}

  async open(): Promise<void> {
    try {
      await this.#renew();
    } catch (error) {
      this.deps.log('chat_trouble', { because: error instanceof Error ? error.message : String(error) });
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
    await this.#chat?.close();
  }

  async #renew(): Promise<void> {
    const { config, env } = this.deps;
    const { bot_token: token, chat_id: user, group_id: group, api_root: root } = config.readOrLast();
    const settings: BotSettings = { token, user, group, root: env[ROOT_VARIABLE] || root };
    const text = JSON.stringify(settings);
    if (text === this.#settings) return;
    this.#settings = text;
    await this.#chat?.close();
    this.#chat = null;
    if (token === '' || user === 0 || this.#isClosed) return;
    const chat = new TelegramChat(this.deps, settings, this.options);
    await chat.open();
    this.#chat = chat;
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
  #unwatch = (): void => {};
  #running: Promise<unknown> = Promise.resolve();

  constructor(
    readonly deps: ChatDeps,
    readonly settings: BotSettings,
    options: BridgeOptions,
  ) {
    const { config, log } = deps;
    const { token, user, group, root } = settings;
    const state = new ChatState(config.folder, token);
    const api = new TelegramApi({ token, root, log });
    const topics = new Topics({ api, config, group });
    const parts = { ...deps, api, state, topics };
    this.#api = api;
    this.#outgoing = new Outgoing(parts);
    this.#questions = new ChatQuestions(parts);
    this.#surface = new TelegramSurface({ ...parts, folder: config.folder, token });
    const surface = this.#surface;
    this.#incoming = new Incoming({ ...parts, ...options, questions: this.#questions, surface, user, group });
  }

  async open(): Promise<void> {
    await this.#outgoing.open();
    this.#surface.open();
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

  async close(): Promise<void> {
    this.#unwatch();
    const surface = this.#surface.close();
    this.#api.close();
    this.#wakeup.notify();
    this.#wakeup.close();
    await withLimit(Promise.all([this.#running, surface]), CLOSE_MS);
  }

  /** Says what there is to say, again and again. */
  async #show(): Promise<void> {
    let pause = 0;
    while (!this.#api.isClosed) {
      try {
        await this.#outgoing.flush();
        for (const [name] of this.deps.config.sessions()) await this.#ask(name);
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

  /** A host that does not answer keeps nothing back but its own questions. */
  async #ask(session: string): Promise<void> {
    try {
      await this.#questions.show(session, this.#statuses.get(session) === 'waiting');
    } catch (error) {
      if (!(error instanceof Refusal) || this.#api.isClosed) throw error;
    }
  }
}
