import { afterEach, describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { LogFacts } from '../../core/service.ts';
import type { Chat } from '../../protocols/control/chat.ts';
import { ScriptedServer } from '../../../test/support/control-server.ts';
import { EXPIRES_MS } from '../../core/questions/questions.ts';
import { aQuestion } from '../../../test/support/scripted-questions.ts';
import { Telegram } from '../../../test/support/telegram.ts';
import { within } from '../../../test/support/within.ts';
import { openTelegram } from './bridge.ts';
import type { BridgeOptions } from './bridge.ts';

const DEADLINE = 20_000;

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).reverse()) await one.close();
});

/** A bot and its chat, on sessions that a script plays. */
class Rig {
  readonly logged: LogFacts[] = [];
  chat: Chat | null = null;

  private constructor(
    readonly telegram: Telegram,
    readonly server: ScriptedServer,
  ) {}

  static async start(settings: object = {}, env: Record<string, string> = {}, options: BridgeOptions = {}) {
    const telegram = new Telegram();
    const server = await ScriptedServer.start();
    const rig = new Rig(telegram, server);
    opened.push(telegram, server);
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
    opened.push(this.chat);
  }

  /** What a program sends, and its answer. */
  async ask(text: string): Promise<void> {
    await this.server.control.ask({ session: 'api', text, from: 'api', agent: 'ci', deadline: null });
    this.chat?.changed();
  }

  get created(): number {
    return this.telegram.calls.filter(({ method }) => method === 'createForumTopic').length;
  }
}

describe('what sessions say in Telegram', () => {
  it('arrives whole and in order when the chat asks to wait [CCC-193]', async () => {
    const rig = await Rig.start();
    const topic = await rig.telegram.topic('api');
    const answer = '😀'.repeat(9000);
    rig.server.control.scripts.set('api', async () => answer);
    rig.telegram.refuse('sendMessage', 429, 1, 'Too Many Requests');
    await rig.ask('long');
    await within(DEADLINE, async () => rig.telegram.in(topic).join('').length >= answer.length + 12);
    const [first, ...pieces] = rig.telegram.in(topic);
    expect(first).toBe('🤖 [ci] long');
    expect(pieces.join('')).toBe(answer);
    const calls = rig.telegram.calls.filter(({ method }) => method === 'sendMessage');
    expect((calls[1]?.at ?? 0) - (calls[0]?.at ?? 0)).toBeGreaterThan(990);
  });

  it('gets a new topic if a person deleted the old one [CCC-191]', async () => {
    const rig = await Rig.start();
    const old = await rig.telegram.topic('api');
    rig.telegram.topics.delete(old);
    await rig.ask('hello');
    const { topic } = await rig.telegram.said('re: hello');
    expect(topic).not.toBe(old);
    expect(rig.server.config.session('api')?.topic_id).toBe(topic ?? 0);
    expect(rig.created).toBe(2);
  });

  it('has one topic however many processes make it [CCC-191]', async () => {
    const rig = await Rig.start({ bot_token: '' });
    rig.configure();
    await Promise.all([rig.open(), rig.open(), rig.open()]);
    await within(DEADLINE, async () => rig.server.config.session('api')?.topic_id !== 0);
    await rig.ask('hello');
    await rig.telegram.said('re: hello');
    expect(rig.created).toBe(1);
  });

  it('needs a group, and without one nothing fails [CCC-191]', async () => {
    const rig = await Rig.start({ group_id: 0 });
    await rig.ask('hello');
    rig.telegram.write('/list', { chat: rig.telegram.user });
    await rig.telegram.said(/^api: stopped/);
    expect([rig.created, rig.telegram.posted.length]).toEqual([0, 1]);
  });

  it('is corrected if it was not delivered [CCC-189]', async () => {
    const rig = await Rig.start();
    const gate = Promise.withResolvers<void>();
    rig.server.control.scripts.set('api', async () => {
      await gate.promise;
      return { outcome: 'failed', because: 'the client is dead' };
    });
    const asked = rig.ask('do it');
    rig.chat?.changed();
    const { id } = await rig.telegram.said('🤖 [ci] do it');
    gate.resolve();
    await asked;
    expect((await rig.telegram.said(/the client is dead/)).id).toBe(id);
    expect(rig.telegram.posted.map(({ text }) => text)).toEqual([
      '🤖 [ci] do it\n\n⚠️ not delivered: the client is dead',
    ]);
  });

  it('goes to the API root of the environment, else to that of the file [CCC-190]', async () => {
    const other = new Telegram();
    opened.push(other);
    const rig = await Rig.start({}, { CCC_TELEGRAM_API_ROOT: other.root });
    await rig.ask('hello');
    await other.said('re: hello');
    expect(rig.telegram.calls).toEqual([]);
  });

  it('is not said again after a restart, and what was said meanwhile is', async () => {
    const rig = await Rig.start();
    await rig.ask('one');
    await rig.telegram.said('re: one');
    await within(DEADLINE, async () => remembered(rig).includes('"shown":{"api":2}'));
    await rig.chat?.close();
    await rig.ask('two');
    await rig.open();
    await rig.telegram.said('re: two');
    expect(rig.telegram.posted.map(({ text }) => text)).toEqual(['🤖 [ci] one', 're: one', '🤖 [ci] two', 're: two']);
  });
});

describe('what a person does in Telegram', () => {
  it('is handled once, also if the server was killed before it was done [CCC-194]', async () => {
    const rig = await Rig.start();
    const topic = await rig.telegram.topic('api');
    const update = rig.telegram.write('only once', { topic });
    await rig.telegram.said('re: only once');
    await within(DEADLINE, async () => remembered(rig).includes('"pending":[]'));
    await rig.chat?.close();
    // As a server leaves it that was killed behind the prompt, and one that was killed before it.
    const state = JSON.parse(remembered(rig)) as Record<string, unknown>;
    const message = { chat: { id: rig.telegram.group }, message_thread_id: topic, is_topic_message: true };
    const from = { id: rig.telegram.user, username: 'ada' };
    state['pending'] = [
      { update_id: update, message: { ...message, from, text: 'only once' } },
      { update_id: update + 1, message: { ...message, from, text: 'not yet' } },
    ];
    writeFileSync(`${rig.server.config.folder}/telegram.json`, JSON.stringify(state));
    await rig.open();
    await rig.telegram.said('re: not yet');
    expect(rig.server.control.asked.map(({ text }) => text)).toEqual(['only once', 'not yet']);
    await within(DEADLINE, async () => remembered(rig).includes('"pending":[]'));
  });

  it.each([
    ['/ping', 'pong'],
    ['/help', /\/screenshot/],
    ['/list', /^api: idle/],
    ['/list@some_bot', /^api: idle/],
    ['/status', 'api: idle'],
    ['/screenshot', 'the screen'],
    ['/continue', '🔄 [ada] Session continued'],
    ['/away', /^away/],
    ['/kill', /^api was ended/],
    ['/new other', /^new session other/],
    ['/new api', /there already/],
    ['/c ls', 'a shell by chat is off (allow_shell in ~/.ccc.json)'],
    ['/rc ls', 'a shell by chat is off (allow_shell in ~/.ccc.json)'],
    ['/nothing', 'there is no command /nothing; see /help'],
  ])('%s answers in the topic [CCC-197]', async (text, said) => {
    const rig = await Rig.start();
    rig.server.control.becomes('api', { status: 'idle' });
    rig.server.control.screens.set('api', 'the screen');
    const topic = await rig.telegram.topic('api');
    rig.telegram.write(text, { topic });
    expect((await rig.telegram.said(said)).topic).toBe(topic);
    expect(rig.server.control.asked).toEqual([]);
  });

  it('makes and removes sessions in the file [CCC-164, CCC-197]', async () => {
    const rig = await Rig.start();
    rig.telegram.write('/new other', { chat: rig.telegram.user });
    const topic = await rig.telegram.topic('other');
    expect(rig.server.config.session('other')?.path).toBe('~/other');
    await within(DEADLINE, async () => rig.server.config.session('other')?.topic_id === topic);
    rig.telegram.write('/kill', { topic });
    await within(DEADLINE, async () => rig.server.config.session('other') === null);
  });

  it.each([
    ['fails', 'false', 'the transcription failed (exit 1)'],
    ['hangs', 'sleep 1000; true', 'the transcription took longer than 1 s'],
    ['prints nothing', 'true', 'the transcription is empty'],
    ['is not set', '', 'set transcription_cmd in ~/.ccc.json to send voice messages'],
  ])('as voice is not lost in silence if the transcription %s [CCC-195]', async (_what, command, because) => {
    const rig = await Rig.start({ transcription_cmd: command }, {}, { transcribeMs: 1000 });
    const topic = await rig.telegram.topic('api');
    rig.telegram.files.set('vo', Buffer.from('sound'));
    rig.telegram.write(undefined, { topic, fields: { voice: { file_id: 'vo', file_unique_id: 'vo', duration: 1 } } });
    rig.telegram.write('/ping', { topic });
    await rig.telegram.said('pong');
    expect((await rig.telegram.said(`⚠️ ${because}`)).topic).toBe(topic);
    const lines = await rig.server.control.store.history({ session: 'api', limit: 10 });
    expect(lines).toMatchObject([{ from: 'human', type: 'voice', status: 'failed', error: because, username: 'ada' }]);
    expect(readdirSync(rig.server.config.folder).filter((one) => one.startsWith('voice'))).toEqual([]);
  });

  it('as a photo above 20 MB is refused, and nothing is kept [CCC-196]', async () => {
    const rig = await Rig.start();
    const topic = await rig.telegram.topic('api');
    rig.telegram.files.set('ph', new Uint8Array(20 * 1024 * 1024 + 1));
    const photo = [{ file_id: 'ph', file_unique_id: 'ph', width: 10, height: 10 }];
    rig.telegram.write(undefined, { topic, fields: { photo, caption: 'Look:' } });
    await rig.telegram.said('⚠️ the file is too large (limit 20 MB)');
    const folder = `${rig.server.home}/api/.ccc`;
    expect(existsSync(folder) ? readdirSync(folder).filter((one) => one.startsWith('photo')) : []).toEqual([]);
    expect(rig.server.control.asked).toEqual([]);
  });

  it('late with a button changes nothing: the dialog was answered elsewhere [CCC-107, CCC-192]', async () => {
    const rig = await Rig.start();
    await rig.telegram.topic('api');
    const script = rig.server.control.questionsOf('api');
    script.asks([aQuestion()]);
    rig.server.control.becomes('api', { status: 'waiting', waitingFor: 'input needed' });
    const { id, buttons } = await rig.telegram.said(/^❓/);
    script.asks([aQuestion()]);
    rig.telegram.press(buttons[0]?.[0]?.callback_data ?? '', id);
    const [toast] = await rig.telegram.toasted(1);
    expect(toast).toMatch(/not open any more/);
    expect(script.entered).toEqual([]);
    await within(DEADLINE, async () => rig.telegram.posted.find((one) => one.id === id)?.buttons.length === 0);
  });

  it('is told who chose what, where a program answered the question [CCC-105, CCC-107]', async () => {
    const rig = await Rig.start();
    await rig.telegram.topic('api');
    rig.server.control.questionsOf('api').asks([aQuestion()]);
    rig.server.control.becomes('api', { status: 'waiting', waitingFor: 'input needed' });
    const { id } = await rig.telegram.said(/^❓/);
    const answer = { cmd: 'answer', session: 'api', question_index: 0, option_index: 1, from: 'ci' };
    expect(await rig.server.ask(answer)).toMatchObject({ ok: true });
    const shown = () => rig.telegram.posted.find((one) => one.id === id);
    await within(DEADLINE, async () => shown()?.text.endsWith('☑️ ci: MongoDB') === true);
  });

  it('is told that nobody answered within 5 minutes, and the buttons are gone [CCC-105]', async () => {
    const rig = await Rig.start();
    await rig.telegram.topic('api');
    const { control } = rig.server;
    const askedAt = Date.now() - EXPIRES_MS - 60_000;
    control.now = () => askedAt;
    control.questionsOf('api').asks([aQuestion()], { askedAt });
    control.becomes('api', { status: 'waiting', waitingFor: 'input needed' });
    const { id } = await rig.telegram.said(/^❓/);
    control.now = Date.now;
    const shown = () => rig.telegram.posted.find((one) => one.id === id);
    await within(DEADLINE, async () => shown()?.text.includes('⌛ not answered within 5 minutes') === true);
    expect([shown()?.buttons, control.questionsOf('api').entered]).toEqual([[], []]);
  });

  it('answers a question with words of their own by a reply to it', async () => {
    const rig = await Rig.start();
    const topic = await rig.telegram.topic('api');
    const script = rig.server.control.questionsOf('api');
    script.asks([aQuestion()]);
    rig.server.control.becomes('api', { status: 'waiting', waitingFor: 'input needed' });
    const { id } = await rig.telegram.said(/^❓/);
    rig.telegram.write('a file', { topic, fields: { reply_to_message: { message_id: id } } });
    await rig.telegram.said('Chosen: a file');
    expect(script.entered).toEqual([[{ text: 'a file' }]]);
  });
});

const remembered = (rig: Rig): string => readFileSync(`${rig.server.config.folder}/telegram.json`, 'utf8');
