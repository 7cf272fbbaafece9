import { afterEach, describe, expect, it } from 'bun:test';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { ControlRig } from '../support/control-rig.ts';
import { pixelsOf } from '../support/png.ts';
import { Telegram } from '../support/telegram.ts';
import { within } from '../support/within.ts';

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

describe('sessions in Telegram', () => {
  it('have a topic each, with what programs send and what is answered [CCC-46, CCC-57, CCC-68, CCC-143, CCC-191]', async () => {
    const { rig, telegram } = await started({ api: {}, web: {} });
    const [api, web] = [await telegram.topic('api'), await telegram.topic('web')];
    await rig.ask('api', 'What is the version?', { from: 'orchestrator' });
    await rig.send('web', 'build it', { from: 'ci' });
    await telegram.said('re: build it');
    expect(telegram.in(api)).toEqual(['🤖 [orchestrator] What is the version?', 're: What is the version?']);
    expect(telegram.in(web)).toEqual(['🤖 [ci] build it', 're: build it']);
    await rig.request({ cmd: 'continue', session: 'api', from: 'orchestrator' });
    expect((await telegram.said('🔄 [orchestrator] Session continued')).topic).toBe(api);
    const { sessions } = JSON.parse(readFileSync(`${rig.home}/.ccc.json`, 'utf8')) as { sessions: object };
    expect(sessions).toMatchObject({ api: { topic_id: api }, web: { topic_id: web } });
    expect(telegram.calls.filter(({ method }) => method === 'createForumTopic')).toHaveLength(2);
  });

  it('are prompted by a person, and by nobody else [CCC-194]', async () => {
    const { rig, telegram } = await started();
    const topic = await telegram.topic('api');
    telegram.write('run rm -rf', { topic, from: 666 });
    telegram.write('from another group', { topic, chat: -5 });
    telegram.write('hello there', { topic });
    expect((await telegram.said('re: hello there')).topic).toBe(topic);
    expect(rig.claude.prompts()).toEqual(['hello there']);
    expect(await rig.history('api')).toMatchObject([{ from: 'human', username: 'ada', text: 'hello there' }, {}]);
    // Neither is echoed.
    expect(telegram.in(topic)).toEqual(['re: hello there']);
  });

  it('get a question with buttons, which is answered once [CCC-106, CCC-107, CCC-192]', async () => {
    const name = 'a-very-long-name-for-a-session-that-would-not-fit-into-the-data-of-a-button';
    const { rig, telegram } = await started({ [name]: {} });
    const questions = [
      { question: 'Which database?', header: 'Database', options: [{ label: 'PostgreSQL' }, { label: 'MongoDB' }] },
    ].map((one) => ({ ...one, multiSelect: false }));
    await rig.send(name, `ask @@${JSON.stringify({ asks: [{ questions }] })}@@`);
    const { id, buttons } = await telegram.said(/^❓/);
    expect(buttons.map((row) => row.map(({ text }) => text))).toEqual([['PostgreSQL'], ['MongoDB']]);
    const data = buttons[1]?.[0]?.callback_data ?? '';
    expect(Buffer.byteLength(data)).toBeLessThanOrEqual(64);
    telegram.press(data, id, 666);
    telegram.press(data, id);
    expect(await telegram.toasted(1)).toEqual(['Chosen: MongoDB']);
    telegram.press(data, id);
    telegram.press('q:unknown:0', id);
    expect((await telegram.toasted(3)).slice(1).sort()).toEqual([
      'This question is not open any more.',
      'Too late. ✅ MongoDB',
    ]);
    const edited = await telegram.said(/✅ MongoDB$/);
    expect([edited.id, edited.buttons]).toEqual([id, []]);
    expect(rig.claude.noted().flatMap(({ end }) => end ?? [])).toEqual([{ answers: { 'Which database?': 'MongoDB' } }]);
    expect(await rig.request({ cmd: 'answer', session: name, question_index: 0, option_index: 0 })).toEqual({
      ok: false,
      error: 'question already answered',
    });
  });

  it('let their user approve by a button what no program may approve [CCC-182]', async () => {
    const { rig, telegram } = await started();
    await rig.send('api', `ask @@${JSON.stringify({ asks: [{ permission: 'touch made' }] })}@@`);
    const { id, buttons } = await telegram.said(/^🔐/);
    telegram.press(buttons[0]?.[0]?.callback_data ?? '', id);
    expect(await telegram.toasted(1)).toEqual(['Chosen: Yes']);
    expect(rig.claude.noted().flatMap(({ end }) => end ?? [])).toEqual([{ option: 0 }]);
  });

  it('get photos and voice messages, and keep no recording [CCC-79, CCC-80, CCC-81, CCC-195, CCC-196]', async () => {
    const { rig, telegram } = await started({ api: {} }, { transcription_cmd: 'head -c 11' });
    const topic = await telegram.topic('api');
    telegram.files.set('ph', Buffer.from('a jpeg'));
    telegram.files.set('vo', Buffer.from('speak to me'));
    const photo = [{ file_id: 'ph', file_unique_id: 'ph', width: 10, height: 10 }];
    telegram.write(undefined, { topic, fields: { photo } });
    await telegram.said(/^re: Analyze this image: /);
    telegram.write(undefined, { topic, fields: { voice: { file_id: 'vo', file_unique_id: 'vo', duration: 1 } } });
    await telegram.said('re: speak to me');
    const [first, , second] = (await rig.history('api')) as unknown as Record<string, string>[];
    expect(second).toMatchObject({ from: 'human', type: 'voice', transcription: 'speak to me', username: 'ada' });
    expect(first).toMatchObject({ from: 'human', type: 'photo', caption: 'Analyze this image:' });
    const path = first?.['path'] ?? '';
    expect(rig.claude.prompts()).toEqual([`Analyze this image: ${path}`, 'speak to me']);
    expect(path.startsWith(rig.folder('api'))).toBe(true);
    expect([readFileSync(path, 'utf8'), statSync(path).mode & 0o777]).toEqual(['a jpeg', 0o600]);
    expect(readdirSync(`${rig.home}/.ccc`).filter((one) => one.startsWith('voice'))).toEqual([]);
  });

  it('are shown as a picture [CCC-197]', async () => {
    const { rig, telegram } = await started();
    const topic = await telegram.topic('api');
    await rig.ask('api', 'hello');
    telegram.write('/screenshot', { topic });
    await within(60_000, async () => telegram.posted.some(({ photo }) => photo !== undefined));
    const { photo = new Uint8Array(), topic: place } = telegram.posted.find((one) => one.photo) ?? {};
    const { width, height } = pixelsOf(photo);
    expect([place, width > 200, height > 100]).toEqual([topic, true, true]);
  });

  it('do all else while the chat hangs, and the chat gets it later [CCC-144]', async () => {
    const { rig, telegram } = await started();
    const topic = await telegram.topic('api');
    telegram.hangs = true;
    expect(await rig.send('api', 'one', { from: 'ci' })).toMatchObject({ ok: true });
    await rig.ask('api', 'two', { from: 'ci' });
    // Answered while the first call to the chat still had no answer.
    expect(telegram.in(topic)).toEqual([]);
    telegram.hangs = false;
    await rig.end();
    await rig.listen();
    await telegram.said('re: two');
    const history = await rig.history('api');
    expect(telegram.in(topic)).toEqual(history.map(({ from, text }) => (from === 'api' ? `🤖 [ci] ${text}` : text)));
    expect(history).toHaveLength(4);
  });

  it('are made, prompted and answered once if the server is killed before it can say so [CCC-194]', async () => {
    const { rig, telegram } = await started();
    const topic = await telegram.topic('api');
    const options = [{ label: 'PostgreSQL' }, { label: 'MongoDB' }];
    const questions = [{ question: 'Which database?', header: 'Database', options, multiSelect: false }];
    await rig.send('api', `ask @@${JSON.stringify({ asks: [{ questions }] })}@@`);
    const { id, buttons } = await telegram.said(/^❓/);
    telegram.hangs = true;
    telegram.press(buttons[1]?.[0]?.callback_data ?? '', id);
    telegram.write('/new other', { topic });
    telegram.write('/away', { topic });
    telegram.write('then build it', { topic });
    const settings = (): string => readFileSync(`${rig.home}/.ccc.json`, 'utf8');
    await within(
      60_000,
      async () => rig.claude.prompts().includes('then build it') && /"away": *true/.test(settings()),
    );
    await rig.end('SIGKILL');
    telegram.hangs = false;
    await rig.listen();
    for (const said of ['re: then build it', /^away:/, /^new session other/, /✅ MongoDB$/]) await telegram.said(said);
    expect(rig.claude.prompts().filter((text) => text === 'then build it')).toHaveLength(1);
    expect(rig.claude.noted().flatMap(({ end }) => end ?? [])).toEqual([{ answers: { 'Which database?': 'MongoDB' } }]);
    expect([settings().includes('"other"'), /"away": *true/.test(settings())]).toEqual([true, true]);
  });

  it('keep the token of the bot to themselves [CCC-194]', async () => {
    const { rig, telegram } = await started();
    telegram.refuse('sendMessage', 500);
    await rig.ask('api', 'hello', { from: 'ci' });
    await telegram.said('re: hello');
    const pid = rig.server?.pid ?? 0;
    const title = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
    const server = rig.server;
    await rig.end();
    const logged = `${await new Response(server?.stderr).text()}${title}`;
    expect(logged).toContain('chat_down');
    expect(logged).not.toContain('AAE-secret');
    expect(readFileSync(`${rig.home}/.ccc/telegram.json`, 'utf8')).not.toContain('AAE-secret');
  });
});

async function started(sessions: Record<string, object> = { api: {} }, settings: object = {}) {
  const telegram = new Telegram();
  const rig = new ControlRig(sessions, { ...telegram.settings, ...settings });
  opened.push(rig, telegram);
  rig.claude.starts({ ageMs: 60_000 });
  await rig.listen();
  return { rig, telegram };
}
