import { describe, expect, it } from 'bun:test';
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { ControlFile, controlPlaces, fileNameOf, newSessionName, targetOf } from './config.ts';

/** What a user of the original has, and keys that nobody knows. */
const EARLIER = {
  bot_token: '123:abc',
  chat_id: 42,
  group_id: -100_123,
  sessions: {
    web: { topic_id: 7, path: '/code/web', note: 'mine' },
    'msi:x': { path: '/x', host: 'msi', deleted: true },
  },
  projects_dir: '/work',
  transcription_cmd: 'whisper',
  away: true,
  hosts: { msi: { address: 'me@msi', projects_dir: '/far', key: 'k' } },
  oauth_token: 'of a later version',
};

function aFile(text?: string): { file: ControlFile; home: string; path: string } {
  const home = temporaryHome();
  const { file: path, folder } = controlPlaces({ HOME: home });
  if (text !== undefined) writeFileSync(path, text, { mode: 0o644 });
  return { file: new ControlFile(path, folder), home, path };
}

const written = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'));

describe('~/.ccc.json', () => {
  it('keeps every key that a command does not change, and is for its user only [CCC-161]', () => {
    const { file, path } = aFile(JSON.stringify(EARLIER));
    file.add('api', { path: '/code/api', client: 'codex', flags: ['--yolo'] });
    file.remove('web');
    expect(written(path)).toEqual({
      ...EARLIER,
      sessions: {
        ...EARLIER.sessions,
        web: { ...EARLIER.sessions.web, deleted: true },
        api: { path: '/code/api', client: 'codex', flags: ['--yolo'] },
      },
    });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readdirSync(path.slice(0, path.lastIndexOf('/'))).filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });

  it('has a default for every key [CCC-161]', () => {
    const { file } = aFile();
    expect(file.read()).toMatchObject({
      sessions: {},
      hosts: {},
      record_terminal: true,
      allow_commands: false,
      start_timeout_seconds: 60,
      allow_shell: false,
      control_may_approve: false,
      label: false,
    });
    expect(file.sessions()).toEqual([]);
  });

  it('is read again as soon as another program has changed it [CCC-18]', () => {
    const { file, path } = aFile('{}');
    expect(file.sessions()).toEqual([]);
    writeFileSync(path, JSON.stringify(EARLIER));
    expect(file.sessions().map(([name]) => name)).toEqual(['web']);
  });

  it('counts as it was while it is moved away for a moment, and is empty when it stays away [CCC-18]', () => {
    const { path, home } = aFile(JSON.stringify(EARLIER));
    let now = 0;
    const file = new ControlFile(path, `${home}/.ccc`, () => now);
    const names = (): string[] => file.sessions().map(([name]) => name);
    expect(names()).toEqual(['web']);
    for (const away of [0, 4900]) {
      renameSync(path, `${path}~`);
      expect(names()).toEqual(['web']);
      now += away;
      expect(names()).toEqual(['web']);
      renameSync(`${path}~`, path);
      expect(names()).toEqual(['web']);
      now += 60_000;
    }
    rmSync(path);
    expect(names()).toEqual(['web']);
    now += 5000;
    expect(names()).toEqual([]);
    writeFileSync(path, JSON.stringify(EARLIER));
    expect(names()).toEqual(['web']);
  });

  it.each([
    ['{"sessions": {', 'is not a JSON object'],
    ['{\n  "sessions": {}\n  "label": true\n}', 'is not a JSON object: CommaExpected in line 3, column 3; correct it'],
    ['{"sessions": {},}', 'in line 1, column 17'],
    ['{} // mine', 'in line 1, column 4'],
    ['[]', 'is not a JSON object'],
    ['{"sessions": []}', 'wrong at "sessions"'],
    ['{"sessions": {"x": {"path": 7}}}', 'wrong at "sessions.x.path"'],
  ])('that is broken is a clear error and is never overwritten: %s [CCC-161]', (text, said) => {
    const { file, path } = aFile(text);
    expect(() => file.read()).toThrow(said);
    expect(() => file.add('api', { path: '/x' })).toThrow(said);
    expect(readFileSync(path, 'utf8')).toBe(text);
  });

  it('that is a link stays one', () => {
    const { file, path, home } = aFile();
    mkdirSync(`${home}/dotfiles`);
    writeFileSync(`${home}/dotfiles/ccc.json`, '{"away":true}');
    symlinkSync(`${home}/dotfiles/ccc.json`, path);
    file.add('api', { path: '/x' });
    expect(lstatSync(path).isSymbolicLink()).toBe(true);
    expect(written(`${home}/dotfiles/ccc.json`)).toMatchObject({ away: true, sessions: { api: { path: '/x' } } });
  });

  it('gets every session of many programs that write at once [CCC-161, CCC-164]', async () => {
    const { home, path } = aFile('{"away":true}');
    const module = new URL('./config.ts', import.meta.url).pathname;
    const code = (name: number): string =>
      `const { ControlFile } = await import(${JSON.stringify(module)});
       for (let n = 0; n < 5; n++) ControlFile.of({ HOME: ${JSON.stringify(home)} }).add('s${name}-' + n, { path: '/x' });`;
    const children = Array.from({ length: 6 }, (_, name) =>
      Bun.spawn([process.execPath, '-e', code(name)], { stdout: 'ignore', stderr: 'inherit' }),
    );
    expect(await Promise.all(children.map((child) => child.exited))).toEqual([0, 0, 0, 0, 0, 0]);
    const { sessions, away } = written(path) as { sessions: object; away: boolean };
    expect(Object.keys(sessions)).toHaveLength(30);
    expect(away).toBe(true);
  });

  it('takes a name once, and gives a deleted session back with what it had [CCC-165, CCC-164]', () => {
    const { file } = aFile(JSON.stringify(EARLIER));
    expect(() => file.add('web', { path: '/other' })).toThrow('session web exists already (/code/web)');
    file.remove('web');
    expect(file.session('web')).toBeNull();
    expect(() => file.remove('web')).toThrow('session not found');
    file.add('web', { path: '/other' });
    expect(file.session('web')).toMatchObject({ topic_id: 7, path: '/other', deleted: false });
  });

  it('takes a session on another host only if that host is configured [CCC-129, CCC-165]', () => {
    const { file } = aFile(JSON.stringify(EARLIER));
    file.add('msi:api', { path: '/far/api' });
    expect(file.session('msi:api')).toMatchObject({ host: 'msi' });
    expect(() => file.add('nosuch:api', { path: '/far/api' })).toThrow('host not configured: nosuch');
  });
});

describe('the name of a session', () => {
  it.each(['api', 'a.b', 'a_b', 'a/b', 'x y', 'päth', 'msi:back end', 'x'.repeat(128)])(
    'can be %s [CCC-165]',
    (name) => {
      expect(newSessionName(name)).toBe(name);
    },
  );

  it.each([
    ['', 'use letters'],
    [':x', 'use letters'],
    ['msi:', 'use letters'],
    ['a:b:c', 'one colon only'],
    ['x'.repeat(200), 'at most 128 characters'],
    ['a,b', 'commas'],
    [' a', 'spaces at its ends'],
    ['a\nb', 'invisible characters'],
    ['a\u200bb', 'invisible characters'],
    ['-x', 'begin it with a letter'],
    ['../x', 'begin it with a letter'],
  ])('cannot be %p, and it is said why [CCC-165]', (name, why) => {
    expect(() => newSessionName(name)).toThrow(why);
  });

  it('gives a file name of its own to each [CCC-165, CCC-156]', () => {
    const names = [
      'a.b',
      'a_b',
      'a_b-2e7336',
      'decade',
      'x-decade',
      'a b',
      'a/b',
      'a:b',
      'päth',
      'path',
      'msi:api',
      'api',
      '漢',
      '字',
      'x'.repeat(300),
    ];
    const files = names.map(fileNameOf);
    expect(new Set(files).size).toBe(names.length);
    expect(files.filter((file) => !/^[A-Za-z0-9_-]{1,220}$/.test(file))).toEqual([]);
    expect(fileNameOf('a_b')).toBe('a_b');
    expect(fileNameOf('a.b')).toBe('a_b-2e7336');
  });
});

describe('how a session is started', () => {
  it('comes from the file: program, options, folder and patience [CCC-63, CCC-177]', () => {
    const { file } = aFile(
      JSON.stringify({
        sessions: {
          a: { path: '~/a' },
          b: { path: '/b', client: 'codex', flags: [] },
          c: { path: '/c', flags: ['-x'] },
        },
        command: { claude: '/opt/claude' },
        flags: { claude: ['--verbose'], codex: ['--yolo'] },
        start_timeout_seconds: 5,
      }),
    );
    const settings = file.read();
    const targets = file.sessions().map(([name, entry]) => targetOf(name, entry, settings, '/home/me'));
    expect(targets.map(({ command, folder }) => [command, folder])).toEqual([
      [['/opt/claude', '--verbose'], '/home/me/a'],
      [['codex'], '/b'],
      [['/opt/claude', '-x'], '/c'],
    ]);
    expect(targets[0]?.startTimeoutMs).toBe(5000);
  });

  it('never skips permissions unless the user wrote so [CCC-63]', () => {
    const { file } = aFile(JSON.stringify({ sessions: { a: { path: '/a' } } }));
    const [[name, entry] = ['', null]] = file.sessions();
    expect(entry && targetOf(name, entry, file.read(), '/home/me').command).toEqual(['claude']);
  });
});
