import { afterEach, describe, expect, it } from 'bun:test';
import { existsSync } from 'node:fs';
import { TelegramRig } from '../../../test/support/telegram-rig.ts';
import type { Posted } from '../../../test/support/telegram.ts';
import { within } from '../../../test/support/within.ts';

const DEADLINE = 20_000;
const UPDATE = 900;

let rig: TelegramRig;
afterEach(() => rig.close());

describe('a command in Telegram', () => {
  it.each([
    ['/ping', 'pong'],
    ['/help', /\/screenshot/],
    ['/list', /^api: idle/],
    ['/List@some_bot', /^api: idle/],
    ['/status', 'api: idle'],
    ['/continue', '🔄 [ada] Session continued'],
    ['/away', /^away/],
    ['/kill', /^api was ended/],
    ['/new other', /^new session other/],
    ['/new api', /exists already/],
    ['/c ls', 'a shell by chat is off (allow_shell in ~/.ccc.json)'],
    ['/rc ls', 'a shell by chat is off (allow_shell in ~/.ccc.json)'],
    ['/nothing', 'there is no command /nothing; see /help'],
  ])('%s answers in the topic [CCC-197]', async (text, said) => {
    rig = await TelegramRig.start();
    rig.server.control.becomes('api', { status: 'idle' });
    const topic = await rig.telegram.topic('api');
    rig.telegram.write(text, { topic });
    expect((await rig.telegram.said(said)).topic).toBe(topic);
    expect(rig.server.control.asked).toEqual([]);
  });

  it('/screenshot shows a picture of the terminal [CCC-197]', async () => {
    rig = await TelegramRig.start();
    rig.server.control.screens.set('api', '\x1b[31mred\x1b[0m');
    const topic = await rig.telegram.topic('api');
    rig.telegram.write('/screenshot', { topic });
    await within(DEADLINE, async () => rig.telegram.posted.length === 1);
    const [{ photo = new Uint8Array(), ...shown } = {}] = rig.telegram.posted as Partial<Posted>[];
    expect([shown.topic, Buffer.from(photo.subarray(1, 4)).toString()]).toEqual([topic, 'PNG']);
  });

  it.each([
    ['it cannot be drawn', async () => Promise.reject(new Error('no memory')), 0],
    ['the chat refuses it', async () => new Uint8Array([1]), 400],
    ['it is too large for the chat', async () => new Uint8Array([1]), 413],
    ['the chat does not take it now', async () => new Uint8Array([1]), 502],
  ])('/screenshot shows the text if %s [CCC-197]', async (_why, draw, refusal) => {
    rig = await TelegramRig.start({}, {}, { draw });
    rig.server.control.screens.set('api', '\x1b[31mthe screen\x1b[0m');
    if (refusal !== 0) rig.telegram.refuse('sendPhoto', refusal, 0, 'Bad Request: PHOTO_INVALID_DIMENSIONS');
    const topic = await rig.telegram.topic('api');
    rig.telegram.write('/screenshot', { topic });
    expect((await rig.telegram.said('the screen')).topic).toBe(topic);
  });

  it('is no path: that is a text for the session [CCC-173]', async () => {
    rig = await TelegramRig.start();
    rig.telegram.write('/home/me/file is broken', { topic: await rig.telegram.topic('api') });
    await rig.telegram.said('re: /home/me/file is broken');
  });

  it('makes and removes sessions in the file [CCC-164, CCC-197]', async () => {
    rig = await TelegramRig.start({ projects_dir: '~/code' });
    rig.telegram.write('/new other', { chat: rig.telegram.user });
    const topic = await rig.telegram.topic('other');
    expect(rig.server.config.session('other')?.path).toBe('~/code/other');
    expect(existsSync(`${rig.server.home}/code/other`)).toBe(true);
    rig.telegram.write('/new third deep/er', { chat: rig.telegram.user });
    await rig.telegram.said(/third/);
    expect(rig.server.config.session('third')?.path).toBe('~/code/deep/er');
    await within(DEADLINE, async () => rig.server.config.session('other')?.topic_id === topic);
    rig.telegram.write('/kill', { topic });
    await within(DEADLINE, async () => rig.server.config.session('other') === null);
  });

  it('is done once although the settings of the chat change meanwhile [CCC-194]', async () => {
    rig = await TelegramRig.start();
    const { control } = rig.server;
    const gate = Promise.withResolvers<void>();
    control.restartGate = gate.promise;
    rig.telegram.write('/continue', { topic: await rig.telegram.topic('api') });
    await within(DEADLINE, async () => control.restarted.length === 1);
    rig.configure({ api_root: `${rig.telegram.root}/` });
    // The chat with the earlier settings hears nothing any more.
    await within(DEADLINE, async () => rig.telegram.polling === 0);
    gate.resolve();
    await rig.telegram.said('🔄 [ada] Session continued');
    await rig.quiet();
    expect(control.restarted).toEqual(['api']);
  });
});

describe('a command in Telegram, after the server was killed', () => {
  /** A server was killed when this was in hand, and another one begins. */
  async function killedIn(text: string, begun: { before: string; said: string | null } | null, act = () => {}) {
    rig = await TelegramRig.start();
    const { control } = rig.server;
    control.becomes('api', { status: 'idle', pid: 1 });
    const topic = await rig.telegram.topic('api');
    await rig.killedWith([rig.wrote(UPDATE, text, topic)], { begun: begun ? { [UPDATE]: begun } : {} });
    act();
    await rig.open();
    return { telegram: rig.telegram, topic, control };
  }

  it.each([
    ['/new other', /^new session other/, () => rig.server.config.session('other') !== null],
    ['/kill', /^api was ended/, () => rig.server.config.session('api') === null],
    ['/away', /^away/, () => rig.server.config.read().away],
    ['/continue', /continued$/, () => rig.server.control.restarted.length === 1],
  ])('%s is not lost: it was stored and not done [CCC-194]', async (text, said, isDone) => {
    const { telegram } = await killedIn(text, null);
    await telegram.said(said);
    await rig.quiet();
    expect([isDone(), rig.remembered().begun]).toEqual([true, {}]);
  });

  it.each([
    [
      '/new other',
      '',
      () => rig.server.config.add('other', { path: '~/other' }),
      'new session other (~/other); write in its topic',
    ],
    ['/kill api', '', () => rig.server.config.remove('api'), 'api was ended and removed; its history is kept'],
    ['/away', 'back', () => rig.server.config.setAway(true), 'away: what is typed at the keyboard is shown here too'],
    [
      '/continue',
      '1',
      () => rig.server.control.becomes('api', { status: 'idle', pid: 2 }),
      '🔄 [ada] Session continued',
    ],
  ])('%s is not done twice: it was done, and not said [CCC-194]', async (text, before, done, said) => {
    const { telegram, topic, control } = await killedIn(text, { before, said: null }, done);
    expect((await telegram.said(said)).topic).toBe(topic);
    await rig.quiet();
    expect([rig.server.config.read().away, control.restarted]).toEqual([text === '/away', []]);
  });

  it('only says what it had to say [CCC-194]', async () => {
    const { telegram } = await killedIn('/kill api', { before: '', said: 'api was ended' });
    await telegram.said('api was ended');
    await rig.quiet();
    expect(rig.server.config.session('api')).not.toBeNull();
  });
});
