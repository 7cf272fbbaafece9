// Sessions on other hosts: the compiled program on both sides, the system's ssh and sshd, tmux, and the stand-in for Claude Code.
import { afterEach, describe, expect, it } from 'bun:test';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { ControlRig } from '../support/control-rig.ts';
import { noSshd, Sshd } from '../support/ssh.ts';
import type { FarHost } from '../support/ssh.ts';
import { Telegram } from '../support/telegram.ts';
import { within } from '../support/within.ts';

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of closing.splice(0).reverse()) await one.close();
});

/** A prompt that the stand-in answers so. */
const answered = (how: object, text = ''): string => `${text}@@${JSON.stringify(how)}@@`;

interface Place {
  rig: ControlRig;
  sshd: Sshd;
  far: FarHost;
}

/** A server here with `api`, and `msi:backend` on another host. */
async function twoHosts(settings: object = {}): Promise<Place> {
  const rig = new ControlRig();
  const sshd = await Sshd.start(rig.home);
  closing.push(sshd, rig);
  const far = sshd.host();
  rig.configure(
    { api: {}, 'msi:backend': { host: 'msi', path: far.folder('backend') } },
    { hosts: { msi: far.entry }, ...settings },
  );
  await rig.listen();
  return { rig, sshd, far };
}

/** The client there is up: a busy machine may take longer than a host may. */
async function up({ rig }: Place, session = 'msi:backend'): Promise<void> {
  await within(60_000, async () => (await rig.request({ cmd: 'continue', session })).ok === true);
}

/** Processes that have this on their command line or, with `env`, in the environment that they began with. */
function running(words: string, env = ''): number[] {
  const isMeant = (pid: string): boolean => {
    try {
      const [line = '', had = ''] = ['cmdline', 'environ'].map((file) => readFileSync(`/proc/${pid}/${file}`, 'utf8'));
      return line.replaceAll('\0', ' ').includes(words) && had.includes(env) && Number(pid) !== process.pid;
    } catch {
      return false;
    }
  };
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && isMeant(name))
    .map(Number);
}

/** What a server has started on that host. */
const drives = ({ far }: Place): number[] => running(' ccc drive', `HOME=${far.claude.env['HOME']}\0`);

describe.skipIf(noSshd !== null)(`a session on another host${noSshd === null ? '' : ` (skipped: ${noSshd})`}`, () => {
  it('is listed with its host, asked, shown and continued as one here [CCC-29, CCC-30, CCC-67, CCC-98]', async () => {
    const place = await twoHosts();
    const { rig, far } = place;
    await up(place);
    expect(await rig.ask('msi:backend', 'hello', { from: 'ci' })).toMatchObject({ ok: true, response: 're: hello' });
    const { sessions } = await rig.request({ cmd: 'sessions' });
    expect(sessions).toMatchObject([
      { name: 'api', host: 'local', status: 'stopped' },
      { name: 'msi:backend', host: 'msi', status: 'idle', cwd: far.folder('backend') },
    ]);
    const shown = await rig.request({ cmd: 'screenshot', session: 'msi:backend' });
    expect(shown['response']).toContain('re: hello');
    const [before] = far.claude.running();
    expect(await rig.request({ cmd: 'continue', session: 'msi:backend' })).toEqual({ ok: true });
    const [after, ...more] = far.claude.running();
    expect([after?.pid === before?.pid, after?.session === before?.session, more.length]).toEqual([false, true, 0]);
    expect(await rig.history('msi:backend')).toMatchObject([
      { from: 'api', agent: 'ci', text: 'hello' },
      { from: 'claude', text: 're: hello' },
    ]);
    expect((await far.claude.tmux('list-sessions', '-F', '#{session_name}')).trim()).toBe('ccc-backend');
    expect(rig.claude.noted()).toEqual([]);
  });

  it('gets long texts with quotes whole, over one connection, and none on a command line [CCC-201, CCC-202]', async () => {
    const place = await twoHosts();
    const { rig, sshd, far } = place;
    await up(place);
    const connections = sshd.calls().length;
    const text = `marker '"$(id)\`id\` ${`'"$(id)\\ é漢🙂 `.repeat(6000)} end`;
    expect(Buffer.byteLength(text)).toBeGreaterThan(100_000);
    const asked = rig.ask('msi:backend', answered({ hold: true }, text));
    await far.claude.prompted(1);
    expect(running('marker')).toEqual([]);
    await far.claude.order({ finish: 'done' });
    expect(await asked).toMatchObject({ ok: true, response: 'done' });
    for (let n = 0; n < 5; n += 1) expect((await rig.ask('msi:backend', `again ${n}`)).ok).toBe(true);
    expect(far.claude.prompts()[0]).toBe(answered({ hold: true }, text));
    expect(sshd.calls()).toHaveLength(connections);
    expect(sshd.calls().join()).not.toMatch(/marker|again/);
    expect(far.claude.harm()).toEqual([]);
  });

  it('that was opened by hand says what it does from its own files, and is stopped when it is killed [CCC-203]', async () => {
    const place = await twoHosts();
    const { rig, far } = place;
    const pid = await far.claude.openByHand('mine', far.folder('backend'));
    await rig.until('msi:backend', 'idle');
    const asked = rig.ask('msi:backend', answered({ hold: true }, 'work '));
    await far.claude.prompted(1);
    await rig.until('msi:backend', 'active');
    process.kill(pid, 'SIGKILL');
    expect(await asked).toEqual({ ok: false, error: 'session stopped' });
    await rig.until('msi:backend', 'stopped');
    expect((await rig.ask('msi:backend', 'next'))['response']).toBe('re: next');
  });

  it('shows a question that it asks its user, and nothing is typed meanwhile', async () => {
    const place = await twoHosts();
    const { rig, far } = place;
    await up(place);
    const asked = rig.ask('msi:backend', answered({ ask: 'input needed', text: 'chosen' }, 'choose '));
    await far.claude.until('waiting');
    const caller = await rig.caller();
    caller.write('{"cmd":"subscribe","sessions":["msi:backend"]}\n');
    expect(await caller.line()).toMatchObject({ event: 'subscribed' });
    for (let event = await caller.line(); event['waiting_for'] === undefined;) event = await caller.line();
    await far.claude.order({ close: '' });
    expect((await asked)['response']).toBe('chosen');
    expect(far.claude.harm()).toEqual([]);
  });

  it('is asked for its questions and answered from here [CCC-116]', async () => {
    const place = await twoHosts();
    const { rig, far } = place;
    far.claude.starts({ ageMs: 60_000 });
    await up(place);
    const options = [{ label: 'PostgreSQL' }, { label: 'MongoDB' }];
    const asks = [{ questions: [{ question: 'Which database?', header: 'Database', options, multiSelect: false }] }];
    await rig.send('msi:backend', answered({ asks }, 'choose '));
    const request = { cmd: 'questions', session: 'msi:backend' };
    await within(60_000, async () => 'questions' in (await rig.request(request)));
    expect(await rig.request(request)).toMatchObject({
      questions: { session: 'msi:backend', questions: [{ question: 'Which database?', options, answered: false }] },
    });
    const answer = { cmd: 'answer', session: 'msi:backend', question_index: 0, option_index: 1 };
    expect(await rig.request(answer)).toEqual({ ok: true, response: 'answered question 0 with option 1 (MongoDB)' });
    const ends = far.claude.noted().flatMap(({ end }) => end ?? []);
    expect(ends).toEqual([{ answers: { 'Which database?': 'MongoDB' } }]);
  });

  it('of the same name as one here and one on a third host is another session [CCC-156]', async () => {
    const rig = new ControlRig();
    const sshd = await Sshd.start(rig.home);
    closing.push(sshd, rig);
    const [a, b] = [sshd.host(), sshd.host()];
    rig.configure(
      { api: {}, 'a:api': { host: 'a', path: a.folder('api') }, 'b:api': { path: '~/projects/api' } },
      { hosts: { a: a.entry, b: b.entry } },
    );
    b.folder('api');
    await rig.listen();
    await Promise.all(['a:api', 'b:api'].map((session) => up({ rig, sshd, far: a }, session)));
    const names = ['api', 'a:api', 'b:api'];
    const answers = await Promise.all(names.map((name) => rig.ask(name, `for ${name}`)));
    expect(answers.map((answer) => answer['response'])).toEqual(names.map((name) => `re: for ${name}`));
    expect([rig.claude, a.claude, b.claude].map((claude) => claude.prompts())).toEqual(
      names.map((name) => [`for ${name}`]),
    );
    for (const name of names)
      expect((await rig.history(name)).map(({ text }) => text)).toEqual([`for ${name}`, `re: for ${name}`]);
  });

  it('that left a prompt in its composer gets the Enter that is missing, and not the prompt again [CCC-174]', async () => {
    const place = await twoHosts();
    const { rig, far } = place;
    await up(place);
    await far.claude.order({ enter: 'ignored' });
    const asked = rig.ask('msi:backend', 'hello');
    await within(20_000, async () => far.claude.noted().some(({ ignored }) => ignored === 'hello'));
    await far.claude.order({ enter: 'taken' });
    expect(await asked).toMatchObject({ ok: true, response: 're: hello' });
    expect(far.claude.prompts()).toEqual(['hello']);
  });

  it('that took a prompt and did not record it does not get it again', async () => {
    const place = await twoHosts();
    const { rig, far } = place;
    await up(place);
    await far.claude.order({ enter: 'swallowed' });
    const error = 'failed to send: the client took it and did not record it';
    expect(await rig.ask('msi:backend', 'hello')).toMatchObject({ ok: false, error });
    await far.claude.order({ enter: 'taken' });
    expect(await rig.ask('msi:backend', 'next')).toMatchObject({ response: 're: next' });
    expect(far.claude.prompts()).toEqual(['next']);
  });

  it('is made and ended with ccc', async () => {
    const place = await twoHosts();
    const { rig, far } = place;
    far.folder('web');
    expect(await rig.run('ccc', ['new', 'msi:web'])).toMatchObject({
      out: 'new session msi:web (~/projects/web)\n',
      code: 0,
    });
    await up(place, 'msi:web');
    expect((await rig.ask('msi:web', 'hi'))['response']).toBe('re: hi');
    expect(await rig.run('ccc', ['kill', 'msi:web'])).toMatchObject({ code: 0 });
    await within(20_000, async () => far.claude.running().length === 0);
    expect(await rig.run('ccc', ['new', 'nas:web'])).toMatchObject({ code: 1 });
  });
});

describe.skipIf(noSshd !== null)('a connection', () => {
  it('that is lost during an ask is made again, and the answer is found in the record there [CCC-201]', async () => {
    const place = await twoHosts();
    const { rig, sshd, far } = place;
    await up(place);
    const asked = rig.ask('msi:backend', answered({ hold: true }, 'long '));
    await far.claude.prompted(1);
    await sshd.drop();
    await within(20_000, async () => drives(place).length === 0);
    await far.claude.order({ finish: 'done meanwhile' });
    await rig.until('msi:backend', 'stopped');
    await sshd.open();
    expect(await asked).toMatchObject({ ok: true, response: 'done meanwhile' });
    expect((await rig.ask('msi:backend', 'next'))['response']).toBe('re: next');
    expect(far.claude.prompts()).toHaveLength(2);
  });

  it('that is lost again and again while prompts are typed loses none and doubles none', async () => {
    const place = await twoHosts();
    const { rig, sshd, far } = place;
    await up(place);
    const texts = Array.from({ length: 6 }, (_, n) => `prompt ${n}`);
    for (const text of texts) {
      const asked = rig.ask('msi:backend', text);
      await Bun.sleep(Math.random() * 150);
      await sshd.drop();
      await sshd.open();
      const { ok, error = '', response } = await asked;
      if (ok) expect(response).toBe(`re: ${text}`);
      else expect([text, error.startsWith('host unreachable: ')]).toEqual([text, true]);
      await up(place);
    }
    const lines = await rig.history('msi:backend');
    const typed = lines.filter(({ from, status }) => from === 'api' && status === undefined).map(({ text }) => text);
    expect(far.claude.prompts()).toEqual(typed);
    expect(far.claude.harm()).toEqual([]);
  });

  it('ends with the server, and so does what it started there', async () => {
    const place = await twoHosts();
    const { rig, sshd, far } = place;
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await up(place);
      expect([running(`${sshd.folder}/ssh_config`).length, drives(place).length]).toEqual([1, 1]);
      await rig.end(signal);
      await within(20_000, async () => running(`${sshd.folder}/ssh_config`).length === 0);
      await within(20_000, async () => drives(place).length === 0);
      expect(far.claude.running()).toHaveLength(1);
      await rig.listen();
    }
  });
});

describe.skipIf(noSshd !== null)('a host', () => {
  it('that does not answer is unreachable within 5 s, and others wait for nothing [CCC-35, CCC-201]', async () => {
    const { rig, far } = await twoHosts();
    // It takes connections and says nothing.
    const held = new Set<{ destroy(): void }>();
    const silent = createServer((socket) => void held.add(socket));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const { port } = silent.address() as AddressInfo;
    const dead = { ...far.entry, address: `ssh://127.0.0.1:${port}` };
    rig.configure(
      { api: {}, 'msi:backend': { host: 'msi', path: far.folder('backend') }, 'nas:files': { path: '~' } },
      { hosts: { msi: far.entry, nas: dead } },
    );
    const ended: string[] = [];
    const asked = rig.ask('nas:files', 'hello').finally(() => ended.push('ask'));
    const listed = await rig.request({ cmd: 'sessions' });
    expect(listed['sessions']).toMatchObject([
      { name: 'api' },
      { name: 'msi:backend' },
      { name: 'nas:files', status: 'stopped' },
    ]);
    expect(ended).toEqual([]);
    expect((await rig.ask('api', 'here'))['response']).toBe('re: here');
    expect((await asked).error).toStartWith('host unreachable: ');
    for (const cmd of ['send', 'continue', 'screenshot', 'stop'])
      expect((await rig.request({ cmd, session: 'nas:files', text: 'x' })).error).toStartWith('host unreachable: ');
    expect((await rig.history('nas:files'))[0]).toMatchObject({ text: 'hello', status: 'failed' });
    for (const socket of held) socket.destroy();
    silent.close();
  });

  it('whose key has changed is not talked to, and the error says so [CCC-201]', async () => {
    const place = await twoHosts();
    const { rig, sshd, far } = place;
    await up(place);
    await sshd.drop();
    sshd.key('host');
    await sshd.open();
    await within(60_000, async () => {
      const { error = '' } = await rig.ask('msi:backend', 'secret');
      return error.startsWith('host unreachable: its host key has changed');
    });
    expect(far.claude.prompts()).toEqual([]);
    sshd.trust();
    await up(place);
    expect((await rig.ask('msi:backend', 'now'))['response']).toBe('re: now');
  });

  it('gets photos from the chat, saved on its own host [CCC-196]', async () => {
    const telegram = new Telegram();
    closing.push(telegram);
    const place = await twoHosts(telegram.settings);
    const { rig, far } = place;
    await up(place);
    const jpeg = crypto.getRandomValues(Buffer.alloc(60_000));
    telegram.files.set('ph', Buffer.concat(Array.from({ length: 50 }, () => jpeg)));
    const photo = [{ file_id: 'ph', file_unique_id: 'ph', width: 10, height: 10 }];
    telegram.write(undefined, { topic: await telegram.topic('msi:backend'), fields: { photo, caption: 'Look:' } });
    await telegram.said(/^re: Look: /);
    const [line] = (await rig.history('msi:backend')) as unknown as Record<string, string>[];
    const path = line?.['path'] ?? '';
    expect(path.startsWith(`${far.folder('backend')}/.ccc/photo-`)).toBe(true);
    expect(far.claude.prompts()).toEqual([`Look: ${path}`]);
    expect(readFileSync(path)).toEqual(Buffer.from(telegram.files.get('ph') ?? []));
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it('that is not configured, or has no Parley, is said so [CCC-129]', async () => {
    const { rig, far } = await twoHosts();
    const missing = { ...far.entry, command: 'no-such-parley' };
    rig.configure({ 'nas:files': { path: '~' }, 'msi:backend': { path: '~' } }, { hosts: { msi: missing } });
    for (const cmd of ['ask', 'send', 'continue', 'history', 'screenshot', 'questions'])
      expect(await rig.request({ cmd, session: 'nas:files', text: 'x' })).toEqual({
        ok: false,
        error: 'host not configured',
      });
    await within(60_000, async () => {
      const { error = '' } = await rig.ask('msi:backend', 'hello');
      return /^host unreachable: .*no-such-parley.* install Parley there, or set "command" of this host$/.test(error);
    });
  });
});
