import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { openTelegram } from '../../src/bridges/telegram/bridge.ts';
import type { BridgeOptions } from '../../src/bridges/telegram/bridge.ts';
import type { LogFacts } from '../../src/core/service.ts';
import type { Chat } from '../../src/protocols/control/chat.ts';
import { ScriptedServer } from './control-server.ts';
import { Telegram } from './telegram.ts';
import { within } from './within.ts';

const DEADLINE = 20_000;

/** A bot and its chat, on sessions that a script plays. */
export class TelegramRig {
  readonly #opened: { close(): Promise<void> }[] = [];
  readonly logged: LogFacts[] = [];
  chat: Chat | null = null;

  private constructor(
    readonly telegram: Telegram,
    readonly server: ScriptedServer,
  ) {}

  static async start(settings: object = {}, env: Record<string, string> = {}, options: BridgeOptions = {}) {
    const telegram = new Telegram();
    const server = await ScriptedServer.start();
    const rig = new TelegramRig(telegram, server);
    rig.#opened.push(telegram, server);
    rig.configure(settings);
    await rig.open(env, options);
    return rig;
  }

  configure(settings: object = {}): void {
    const path = `${this.server.home}/api`;
    mkdirSync(path, { recursive: true });
    this.server.configure({ sessions: { api: { path } }, ...this.telegram.settings, ...settings });
  }

  async open(env: Record<string, string> = {}, options: BridgeOptions = {}): Promise<void> {
    const { control, config, home } = this.server;
    this.chat = await openTelegram(
      {
        control,
        config,
        store: control.store,
        env: { HOME: home, PATH: process.env['PATH'] ?? '', ...env },
        publish: async () => this.chat?.changed(),
        now: Date.now,
        log: (_event, facts) => this.logged.push(facts),
      },
      options,
    );
    this.#opened.push(this.chat);
  }

  /** What a program sends, and its answer. */
  async ask(text: string): Promise<void> {
    await this.server.control.ask({ session: 'api', text, from: 'api', agent: 'ci', deadline: null });
    this.chat?.changed();
  }

  get created(): number {
    return this.telegram.calls.filter(({ method }) => method === 'createForumTopic').length;
  }

  /** What the bridge keeps for its next run. */
  remembered(): Remembered {
    return JSON.parse(readFileSync(`${this.server.config.folder}/telegram.json`, 'utf8')) as Remembered;
  }

  /** Everything was handled. */
  async quiet(): Promise<void> {
    await within(DEADLINE, async () => this.remembered().pending.length === 0);
  }

  /** The next run finds what a server left that was killed with these updates in hand. */
  async killedWith(updates: object[], fields: Partial<Remembered> = {}): Promise<void> {
    await this.quiet();
    await this.chat?.close();
    const left = { ...this.remembered(), pending: updates, ...fields };
    writeFileSync(`${this.server.config.folder}/telegram.json`, JSON.stringify(left));
  }

  /** An update as Telegram sends it: the user wrote this in a topic. */
  wrote(id: number, text: string, topic: number, fields: object = {}): object {
    const { group, user } = this.telegram;
    const message = { message_id: id, date: 1, chat: { id: group }, message_thread_id: topic, is_topic_message: true };
    return { update_id: id, message: { ...message, from: { id: user, username: 'ada' }, text, ...fields } };
  }

  /** The user pressed a button. */
  pressed(id: number, data: string, message: number): object {
    const { group, user } = this.telegram;
    const from = { id: user, username: 'ada' };
    const query = { id: String(id), from, chat_instance: '1', data };
    return { update_id: id, callback_query: { ...query, message: { message_id: message, chat: { id: group } } } };
  }

  async close(): Promise<void> {
    for (const one of this.#opened.splice(0).reverse()) await one.close();
  }
}

interface Remembered {
  pending: object[];
  begun: Record<string, { before: string; said: string | null }>;
  shown: Record<string, number>;
  asked: Record<string, unknown>[];
  [field: string]: unknown;
}
