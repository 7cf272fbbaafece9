import { afterEach, describe, expect, it } from 'bun:test';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { Refusal } from '../../core/refusal.ts';
import { Telegram } from '../../../test/support/telegram.ts';
import { TelegramRig } from '../../../test/support/telegram-rig.ts';
import { within } from '../../../test/support/within.ts';

const DEADLINE = 20_000;

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).reverse()) await one.close();
});

async function started(...args: Parameters<typeof TelegramRig.start>): Promise<TelegramRig> {
  const rig = await TelegramRig.start(...args);
  opened.push(rig);
  return rig;
}

function isAlive(pid: string): boolean {
  try {
    return !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

describe('what sessions say in Telegram', () => {
  it('arrives whole and in order when the chat asks to wait [CCC-193]', async () => {
    const rig = await started();
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
    const rig = await started();
    const old = await rig.telegram.topic('api');
    rig.telegram.topics.delete(old);
    await rig.ask('hello');
    const { topic } = await rig.telegram.said('re: hello');
    expect(topic).not.toBe(old);
    expect(rig.server.config.session('api')?.topic_id).toBe(topic ?? 0);
    expect(rig.created).toBe(2);
  });

  it('has one topic however many processes make it [CCC-191]', async () => {
    const rig = await started({ bot_token: '' });
    rig.configure();
    await Promise.all([rig.open(), rig.open(), rig.open()]);
    await within(DEADLINE, async () => rig.server.config.session('api')?.topic_id !== 0);
    await rig.ask('hello');
    await rig.telegram.said('re: hello');
    expect(rig.created).toBe(1);
  });

  it('needs a group, and without one nothing fails [CCC-191]', async () => {
    const rig = await started({ group_id: 0 });
    await rig.ask('hello');
    rig.telegram.write('/list', { chat: rig.telegram.user });
    await rig.telegram.said(/^api: stopped/);
    expect([rig.created, rig.telegram.posted.length]).toEqual([0, 1]);
  });

  it('is corrected if it was not delivered [CCC-189]', async () => {
    const rig = await started();
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
    const rig = await started({}, { CCC_TELEGRAM_API_ROOT: other.root });
    await rig.ask('hello');
    await other.said('re: hello');
    expect(rig.telegram.calls).toEqual([]);
  });

  it('begins with what comes now, in a group that is new', async () => {
    const rig = await started({ group_id: 0 });
    await rig.ask('before');
    rig.configure();
    await rig.telegram.topic('api');
    await rig.ask('now');
    await rig.telegram.said('re: now');
    expect(rig.telegram.posted.map(({ text }) => text)).toEqual(['🤖 [ci] now', 're: now']);
  });

  it('is shown without a look at the pages that it names, and without blank messages', async () => {
    const rig = await started();
    await rig.telegram.topic('api');
    rig.server.control.scripts.set('api', async () => `https://evil.example/?secret${' '.repeat(9000)}end`);
    await rig.ask('hello');
    await rig.telegram.said(/end$/);
    const bodies = rig.telegram.calls.filter(({ method }) => method === 'sendMessage').map(({ body }) => body);
    expect(bodies.map((body) => body['link_preview_options'])).toEqual(bodies.map(() => ({ is_disabled: true })));
    expect(rig.telegram.posted).toHaveLength(3);
  });

  it('holds back neither the private chat nor other sessions if the group refuses it', async () => {
    const rig = await started();
    await rig.telegram.topic('api');
    for (let times = 0; times < 9; times++)
      rig.telegram.refuse('sendMessage', 403, 0, 'Forbidden: bot was kicked', rig.telegram.group);
    await rig.ask('hello');
    await within(DEADLINE, async () => rig.logged.some(({ because }) => String(because).includes('kicked')));
    rig.telegram.write('/ping', { chat: rig.telegram.user });
    expect((await rig.telegram.said('pong')).chat).toBe(rig.telegram.user);
  });

  it('is skipped if the chat refuses it as too large, and later lines are shown', async () => {
    const rig = await started();
    await rig.telegram.topic('api');
    rig.telegram.refuse('sendMessage', 413, 0, 'Request Entity Too Large');
    await rig.ask('hello');
    await rig.telegram.said('re: hello');
    expect(rig.telegram.posted.map(({ text }) => text)).toEqual(['re: hello']);
  });

  it('has a topic although the chat refuses that of another session', async () => {
    const rig = await started({ bot_token: '' });
    rig.telegram.refuse('createForumTopic', 400, 0, 'Bad Request: TOPIC_TITLE_EMPTY');
    const path = `${rig.server.home}/api`;
    rig.configure({ sessions: { ' ': { path }, web: { path } } });
    await rig.telegram.topic('web');
  });

  it('is not shown again after a restart, but lines from meanwhile are', async () => {
    const rig = await started();
    await rig.ask('one');
    await rig.telegram.said('re: one');
    await within(DEADLINE, async () => rig.remembered().shown['api'] === 2);
    await rig.chat?.close();
    await rig.ask('two');
    await rig.open();
    await rig.telegram.said('re: two');
    expect(rig.telegram.posted.map(({ text }) => text)).toEqual(['🤖 [ci] one', 're: one', '🤖 [ci] two', 're: two']);
  });
});

describe('what a person does in Telegram', () => {
  it('is handled once, also if the server was killed before it was done [CCC-194]', async () => {
    const rig = await started();
    const topic = await rig.telegram.topic('api');
    const update = rig.telegram.write('only once', { topic });
    await rig.telegram.said('re: only once');
    // Behind the prompt, and before it.
    await rig.killedWith([rig.wrote(update, 'only once', topic), rig.wrote(update + 1, 'not yet', topic)]);
    await rig.open();
    await rig.telegram.said('re: not yet');
    expect(rig.server.control.asked.map(({ text }) => text)).toEqual(['only once', 'not yet']);
    await rig.quiet();
  });

  it('costs nothing if it is a stranger [CCC-194]', async () => {
    const rig = await started();
    const topic = await rig.telegram.topic('api');
    rig.telegram.write('/ping', { topic });
    await rig.telegram.said('pong');
    await rig.quiet();
    const path = `${rig.server.config.folder}/telegram.json`;
    const before = statSync(path).ino;
    for (let times = 0; times < 50; times++) rig.telegram.write(`spam ${times}`, { topic, from: 666, chat: 666 });
    await within(DEADLINE, async () => rig.telegram.waiting === 0);
    expect(statSync(path).ino).toBe(before);
    expect(rig.server.control.asked).toEqual([]);
  });

  it('is refused with words if the session has too many prompts', async () => {
    const rig = await started();
    const topic = await rig.telegram.topic('api');
    rig.server.control.sendFails = new Refusal('busy', 'the queue of this session is full');
    rig.telegram.write('one more', { topic });
    expect((await rig.telegram.said('⚠️ the queue of this session is full')).topic).toBe(topic);
  });

  it('is not lost if the store fails for a while, and is stored once', async () => {
    const rig = await started();
    const { control } = rig.server;
    const topic = await rig.telegram.topic('api');
    control.sendFails = new Error('disk I/O error');
    rig.telegram.write('first', { topic });
    rig.telegram.write('second', { topic });
    await within(DEADLINE, async () => rig.logged.some(({ because }) => String(because).includes('disk I/O error')));
    const send = control.send.bind(control);
    control.send = async (request) => {
      const sent = await send(request);
      control.send = send;
      throw new Error(`stored as ${sent.outcome}, and then the disk failed`);
    };
    control.sendFails = null;
    await rig.telegram.said('re: second');
    await rig.quiet();
    expect(control.asked.map(({ text }) => text)).toEqual(['first', 'second']);
  });

  it('is told in its topic if the store keeps failing', async () => {
    const rig = await started();
    const topic = await rig.telegram.topic('api');
    rig.server.control.sendFails = new Error('disk I/O error');
    rig.telegram.write('hello', { topic });
    expect((await rig.telegram.said('⚠️ it failed; send it again')).topic).toBe(topic);
    await rig.quiet();
  });

  it('as voice leaves no recording and no transcriber when the chat closes', async () => {
    const rig = await started({ bot_token: '' });
    const note = `${rig.server.home}/transcriber`;
    rig.configure({ transcription_cmd: `sleep 1000 & echo "$$ $!" > ${note}.new; mv ${note}.new ${note}; wait; true` });
    const topic = await rig.telegram.topic('api');
    rig.telegram.files.set('vo', Buffer.from('sound'));
    rig.telegram.write(undefined, { topic, fields: { voice: { file_id: 'vo', file_unique_id: 'vo', duration: 1 } } });
    await within(DEADLINE, async () => existsSync(note));
    const pids = readFileSync(note, 'utf8').trim().split(' ');
    await rig.chat?.close();
    await within(DEADLINE, async () => !pids.some(isAlive));
    expect(readdirSync(rig.server.config.folder).filter((one) => one.startsWith('voice'))).toEqual([]);
    expect(rig.remembered().pending).toHaveLength(1);
  });

  it('as voice is shown as it was understood [CCC-195]', async () => {
    const rig = await started({ transcription_cmd: 'cat' });
    const topic = await rig.telegram.topic('api');
    rig.telegram.files.set('vo', Buffer.from('run the tests'));
    writeFileSync(`${rig.server.config.folder}/voice-0-1.ogg`, 'of a server that was killed');
    await rig.chat?.close();
    await rig.open();
    rig.telegram.write(undefined, { topic, fields: { voice: { file_id: 'vo', file_unique_id: 'vo', duration: 1 } } });
    await rig.telegram.said('re: run the tests');
    await rig.telegram.said('📝 run the tests');
    expect(rig.telegram.in(topic)[0]).toBe('🎤 Transcribing…');
    expect(readdirSync(rig.server.config.folder).filter((one) => one.startsWith('voice'))).toEqual([]);
  });

  it.each([
    ['fails', 'false', 'the transcription failed (exit 1)'],
    ['hangs', 'sleep 1000; true', 'the transcription took longer than 1 s'],
    ['prints nothing', 'true', 'the transcription is empty'],
    ['is not set', '', 'set transcription_cmd in ~/.ccc.json to send voice messages'],
  ])('as voice is not lost in silence if the transcription %s [CCC-195]', async (_what, command, because) => {
    const rig = await started({ transcription_cmd: command }, {}, { transcribeMs: 1000 });
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
    const rig = await started();
    const topic = await rig.telegram.topic('api');
    rig.telegram.files.set('ph', new Uint8Array(20 * 1024 * 1024 + 1));
    const photo = [{ file_id: 'ph', file_unique_id: 'ph', width: 10, height: 10 }];
    rig.telegram.write(undefined, { topic, fields: { photo, caption: 'Look:' } });
    await rig.telegram.said('⚠️ the file is too large (limit 20 MB)');
    const folder = `${rig.server.home}/api/.ccc`;
    expect(existsSync(folder) ? readdirSync(folder).filter((one) => one.startsWith('photo')) : []).toEqual([]);
    expect(rig.server.control.asked).toEqual([]);
  });
});
