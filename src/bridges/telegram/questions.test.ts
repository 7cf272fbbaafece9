import { afterEach, describe, expect, it } from 'bun:test';
import type { AskedQuestion, OpenQuestion } from '../../core/ports/session.ts';
import { EXPIRES_MS } from '../../core/questions/questions.ts';
import { aQuestion } from '../../../test/support/scripted-questions.ts';
import { TelegramRig } from '../../../test/support/telegram-rig.ts';
import type { Posted } from '../../../test/support/telegram.ts';
import { within } from '../../../test/support/within.ts';

const DEADLINE = 20_000;

let rig: TelegramRig;
afterEach(() => rig.close());

/** A session asks this. */
async function asking(questions: AskedQuestion[], fields: Partial<OpenQuestion> = {}, settings: object = {}) {
  rig = await TelegramRig.start(settings);
  const topic = await rig.telegram.topic('api');
  const script = rig.server.control.questionsOf('api');
  script.asks(questions, fields);
  rig.server.control.becomes('api', { status: 'waiting', waitingFor: 'input needed' });
  return { telegram: rig.telegram, topic, script };
}

const labels = ({ buttons }: Posted): string[] => buttons.flatMap((row) => row.map(({ text }) => text));

/** The user presses the button with this label, as the message shows it now. */
function press({ id, buttons }: Posted, label: string): void {
  const button = buttons.flat().find(({ text }) => text === label);
  rig.telegram.press(button?.callback_data ?? label, id);
}

describe('a question in Telegram', () => {
  it('pressed late changes nothing: the dialog was answered elsewhere [CCC-107, CCC-192]', async () => {
    const { telegram, script } = await asking([aQuestion()]);
    const { id, buttons } = await telegram.said(/^❓/);
    script.asks([aQuestion()]);
    telegram.press(buttons[0]?.[0]?.callback_data ?? '', id);
    const [toast] = await telegram.toasted(1);
    expect(toast).toMatch(/not open any more/);
    expect(script.entered).toEqual([]);
    await within(DEADLINE, async () => telegram.posted.find((one) => one.id === id)?.buttons.length === 0);
  });

  it('shows who chose what, where a program answered it [CCC-105, CCC-107]', async () => {
    const { telegram } = await asking([aQuestion()]);
    const { id } = await telegram.said(/^❓/);
    const answer = { cmd: 'answer', session: 'api', question_index: 0, option_index: 1, from: 'ci' };
    expect(await rig.server.ask(answer)).toMatchObject({ ok: true });
    const shown = () => telegram.posted.find((one) => one.id === id);
    await within(DEADLINE, async () => shown()?.text.endsWith('☑️ ci: MongoDB') === true);
  });

  it('says that nobody answered within 5 minutes, and its buttons are gone [CCC-105]', async () => {
    const askedAt = Date.now() - EXPIRES_MS - 60_000;
    rig = await TelegramRig.start();
    await rig.telegram.topic('api');
    const { control } = rig.server;
    control.now = () => askedAt;
    control.questionsOf('api').asks([aQuestion()], { askedAt });
    control.becomes('api', { status: 'waiting', waitingFor: 'input needed' });
    const { id } = await rig.telegram.said(/^❓/);
    control.now = Date.now;
    const shown = () => rig.telegram.posted.find((one) => one.id === id);
    await within(DEADLINE, async () => shown()?.text.includes('⌛ not answered within 5 minutes') === true);
    expect([shown()?.buttons, control.questionsOf('api').entered]).toEqual([[], []]);
  });

  it('is answered with words of their own by a reply to it [CCC-185]', async () => {
    const { telegram, script, topic } = await asking([aQuestion()]);
    const { id } = await telegram.said(/^❓/);
    telegram.write('a file', { topic, fields: { reply_to_message: { message_id: id } } });
    await telegram.said('Chosen: a file');
    expect(script.entered).toEqual([[{ text: 'a file' }]]);
    telegram.write('no, a folder', { topic, fields: { reply_to_message: { message_id: id } } });
    await telegram.said('Too late. ✅ a file');
    expect(rig.server.control.asked).toEqual([]);
  });

  it('is answered by a press although the first try fails', async () => {
    const { telegram, script } = await asking([aQuestion()]);
    const asked = await telegram.said(/^❓/);
    const { control } = rig.server;
    const answer = control.answer.bind(control);
    control.answer = async () => {
      control.answer = answer;
      throw new Error('disk I/O error');
    };
    press(asked, 'SQLite');
    await telegram.said(/✅ SQLite$/);
    expect(script.entered).toEqual([[{ options: [2] }]]);
  });

  it('is answered by a spoken reply', async () => {
    const { telegram, script, topic } = await asking([aQuestion()], {}, { transcription_cmd: 'cat' });
    telegram.files.set('vo', Buffer.from('neither of them'));
    const { id } = await telegram.said(/^❓/);
    const voice = { file_id: 'vo', file_unique_id: 'vo', duration: 1 };
    telegram.write(undefined, { topic, fields: { voice, reply_to_message: { message_id: id } } });
    await telegram.said('Chosen: neither of them');
    expect(script.entered).toEqual([[{ text: 'neither of them' }]]);
  });

  it('does not swallow what is written beside it: that is a prompt, which waits', async () => {
    const { telegram, script, topic } = await asking([aQuestion()]);
    await telegram.said(/^❓/);
    telegram.write('and then deploy', { topic, fields: { reply_to_message: { message_id: topic } } });
    await telegram.said(/^⏳/);
    expect(rig.server.control.asked).toMatchObject([{ text: 'and then deploy', from: 'human' }]);
    expect(script.entered).toEqual([]);
  });

  it('with several choices has ticks, and is answered when they are done [CCC-115, CCC-185]', async () => {
    const { telegram, script } = await asking([aQuestion({ multiSelect: true })]);
    const asked = await telegram.said(/^❓/);
    expect(labels(asked)).toEqual(['☐ PostgreSQL', '☐ MongoDB', '☐ SQLite', 'Done']);
    press(asked, 'Done');
    expect(await telegram.toasted(1)).toEqual(['no option is named']);
    for (const label of ['☐ SQLite', '☐ PostgreSQL', '☐ MongoDB']) press(asked, label);
    await within(DEADLINE, async () => labels(asked).join().startsWith('☑️ PostgreSQL,☑️ MongoDB,☑️ SQLite'));
    press(asked, '☑️ MongoDB');
    press(asked, 'Done');
    await telegram.said(/✅ PostgreSQL, SQLite$/);
    expect(script.entered).toEqual([[{ options: [0, 2] }]]);
    expect(labels(asked)).toEqual([]);
  });

  it('is shown whole if it is long, and shows what is invisible [CCC-182]', async () => {
    const command = `echo ${'x'.repeat(5000)}; rm -rf \u202e/`;
    const { telegram } = await asking([aQuestion({ question: command })], { kind: 'permission' });
    await within(DEADLINE, async () => telegram.posted.some(({ buttons }) => buttons.length > 0));
    const said = telegram.posted.map(({ text }) => text).join('');
    expect(said).toContain('; rm -rf \\u{202e}/');
    expect(telegram.posted.at(-1)?.text.startsWith('🔐')).toBe(true);
  });

  it('that the chat refuses keeps nothing else back', async () => {
    rig = await TelegramRig.start();
    const topic = await rig.telegram.topic('api');
    rig.telegram.refuse('sendMessage', 400, 0, 'Bad Request: BUTTON_DATA_INVALID');
    rig.server.control.questionsOf('api').asks([aQuestion()]);
    rig.server.control.becomes('api', { status: 'waiting' });
    await within(DEADLINE, async () => rig.logged.some(({ because }) => String(because).includes('BUTTON_DATA')));
    await rig.ask('hello');
    expect((await rig.telegram.said('re: hello')).topic).toBe(topic);
  });
});

describe('a question in Telegram, after the server was killed', () => {
  it('is not asked twice, and a press that was under way counts once [CCC-192, CCC-194]', async () => {
    const { telegram, script } = await asking([aQuestion()]);
    const { id, buttons } = await telegram.said(/^❓/);
    const data = buttons[1]?.[0]?.callback_data ?? '';
    await rig.killedWith([rig.pressed(900, data, id), rig.pressed(901, data, id)]);
    await rig.open();
    await telegram.said(/✅ MongoDB$/);
    await rig.quiet();
    expect(script.entered).toEqual([[{ options: [1] }]]);
    expect(telegram.posted).toHaveLength(1);
  });

  it('keeps its ticks, and a tick that is handled again stays one [CCC-194]', async () => {
    const { telegram, script } = await asking([aQuestion({ multiSelect: true })]);
    const asked = await telegram.said(/^❓/);
    const data = asked.buttons[2]?.[0]?.callback_data ?? '';
    telegram.press(data, asked.id);
    await within(DEADLINE, async () => labels(asked).includes('☑️ SQLite'));
    await rig.killedWith([rig.pressed(900, data, asked.id)]);
    await rig.open();
    await rig.quiet();
    press(asked, 'Done');
    await telegram.said(/✅ SQLite$/);
    expect(script.entered).toEqual([[{ options: [2] }]]);
  });

  it('has the answers to the others of its set still [CCC-194]', async () => {
    const { telegram, script } = await asking([aQuestion(), aQuestion({ question: 'And where?', header: 'Where' })]);
    press(await telegram.said(/^❓ Database/), 'SQLite');
    await telegram.said(/✅ SQLite$/);
    await telegram.said(/^❓ Where/);
    await rig.killedWith([]);
    rig.server.control.opensAnswersAgain('api');
    await rig.open();
    rig.server.control.becomes('api', { status: 'waiting' });
    const pending = async () => (await rig.server.control.questions('api'))?.choices[0];
    await within(DEADLINE, async () => (await pending()) !== null);
    press(await telegram.said(/^❓ Where/), 'MongoDB');
    await telegram.said(/✅ MongoDB$/);
    expect(script.entered).toEqual([[{ options: [2] }, { options: [1] }]]);
  });

  it('that may not have been said is said again, and both messages are good [CCC-192]', async () => {
    const { telegram, script } = await asking([aQuestion()]);
    const { id, buttons } = await telegram.said(/^❓/);
    const [asked] = (await rig.quiet(), rig.remembered().asked);
    await rig.killedWith([], { asked: [{ ...asked, message: 0 }] });
    await rig.open();
    rig.server.control.becomes('api', { status: 'waiting' });
    await within(DEADLINE, async () => telegram.posted.length === 2);
    telegram.press(buttons[0]?.[0]?.callback_data ?? '', id);
    await telegram.said(/✅ PostgreSQL$/);
    expect(script.entered).toEqual([[{ options: [0] }]]);
  });
});
