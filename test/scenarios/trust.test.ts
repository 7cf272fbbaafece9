// Files that come with a repository count only after the user said so.
import { describe, expect, it } from 'bun:test';
import { chmodSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../support/home.ts';
import { bodiesIn, Hooks } from '../support/hooks.ts';
import { Program } from '../support/program.ts';

/** A repository as a stranger made it, and a user with two agents who cloned it. */
async function cloned(files: Record<string, string>): Promise<{ parley: Program; repo: string }> {
  const parley = await new Program().init('me', 'payroll');
  await parley.run(['send', '@payroll', 'the salaries']);
  const repo = temporaryHome();
  for (const folder of ['.git', '.c2c', 'src']) mkdirSync(`${repo}/${folder}`);
  for (const [name, text] of Object.entries(files)) writeFileSync(`${repo}/${name}`, text);
  return { parley, repo };
}

const HOSTILE = { '.parley.json': '{"agent": "payroll", "match": "theirs"}' };

describe('a hostile repository', () => {
  it('names nobody: its file is ignored, and one line on stderr says so and what else there is', async () => {
    const { parley, repo } = await cloned(HOSTILE);
    const run = await parley.run(['inbox'], { cwd: `${repo}/src` });
    expect(run).toMatchObject({ code: 0, out: 'inbox empty\n' });
    expect(run.err).toBe(
      `parley: ${repo}/.parley.json came with this folder and is not trusted, so it is ignored: read it, then \`parley trust\`; without it: --as, --match, PARLEY_AGENT, PARLEY_MATCH\n`,
    );
    const sent = await parley.run(['send', '@payroll', 'hello', '--json'], { cwd: repo });
    expect(JSON.parse(sent.out)).toMatchObject({ step: 'stored' });
    expect(sent.err.match(/is not trusted/g)).toHaveLength(1);
    const [, hello] = await parley.json<{ from: string }[]>(['inbox'], { as: 'payroll' });
    expect(hello).toMatchObject({ from: 'me' });
  });

  it('is not mentioned where a flag or the environment says who acts, or the context that it would set', async () => {
    const { parley, repo } = await cloned(HOSTILE);
    expect(await parley.run(['inbox', '--as', 'me'], { cwd: repo })).toMatchObject({ code: 0, err: '' });
    const env = { PARLEY_AGENT: 'me' };
    expect(await parley.withoutTerminal(['inbox'], { cwd: repo, env })).toMatchObject({ code: 0, err: '' });
    writeFileSync(`${repo}/.parley.json`, '{"match": "theirs"}');
    expect((await parley.run(['inbox', '--as', 'me'], { cwd: repo })).err).toContain('is not trusted');
    expect(await parley.run(['inbox', '--match', 'here'], { cwd: repo })).toMatchObject({ code: 0, err: '' });
  });

  it.each([
    ['is no JSON', '{ "agent": '],
    ['is a list', '[]'],
    ['is too large', `{"agent": "${'x'.repeat(70_000)}"}`],
    ['is deep', '['.repeat(20_000)],
    ['names no agent', '{"agent": 7}'],
    ['has odd signs', '{"agent": "\\u001b[2J"}'],
  ])('stops nothing with a file that %s', async (_what, text) => {
    const { parley, repo } = await cloned({ '.parley.json': text });
    const run = await parley.run(['inbox'], { cwd: repo });
    expect(run).toMatchObject({ code: 0, out: 'inbox empty\n' });
    expect(run.err.trim().split('\n')).toHaveLength(1);
    expect(run.err).toContain('is ignored');
    expect(run.err).not.toContain('\u001b');
  });

  it('cannot hide a trusted file above it', async () => {
    const { parley, repo } = await cloned({ '.parley.json': '{"agent": "payroll"}' });
    await parley.byPerson(['trust', repo]);
    writeFileSync(`${repo}/src/.parley.json`, '{"agent": "me"}');
    expect((await parley.run(['whoami'], { cwd: `${repo}/src` })).out).toStartWith('@payroll ');
  });

  it('gets its mail by no hook, which says nothing of it to the model', async () => {
    const hooks = await new Hooks().with('bob', 'payroll');
    const folder = hooks.project('https://example.com/x.git');
    writeFileSync(`${folder}/.parley.json`, '{"agent": "payroll"}');
    await hooks.send({ body: 'the salaries' }, 'payroll');
    const message = await hooks.send({ body: 'for bob' });
    const run = await hooks.call({ cwd: folder, hook_event_name: 'UserPromptSubmit' });
    expect(run).toMatchObject({ code: 0, err: '' });
    expect(run.out).toContain('for bob');
    expect(run.out).not.toContain('salaries');
    expect(run.out).not.toContain('trust');
    expect(message.to).toBe('@bob');
  });
});

describe('parley trust', () => {
  it('lets a file count as it is now, until it changes or the user takes it back', async () => {
    const { parley, repo } = await cloned(HOSTILE);
    const own = async (): Promise<string> => (await parley.run(['whoami'], { cwd: repo })).out.split(' ')[0] ?? '';
    const trusted = await parley.byPerson(['trust'], { cwd: repo });
    expect(trusted).toMatchObject({ code: 0, out: `trusted ${repo}/.parley.json: agent "payroll", match "theirs"\n` });
    expect(await parley.run(['inbox'], { cwd: repo })).toMatchObject({ err: expect.not.stringContaining('trust') });
    expect(await own()).toBe('@payroll');
    writeFileSync(`${repo}/.parley.json`, '{"agent": "payroll"}');
    expect(await own()).toBe('@me');
    expect((await parley.run(['inbox'], { cwd: repo })).err).toContain('has changed since you trusted it');
    expect((await parley.run(['trust', '--list'])).out).toBe(`${repo}/.parley.json (changed, so it is ignored)\n`);
    await parley.byPerson(['trust', `${repo}/.parley.json`]);
    expect(await own()).toBe('@payroll');
    expect((await parley.byPerson(['trust', '--revoke', repo])).out).toContain('is not trusted any more');
    expect(await own()).toBe('@me');
    expect((await parley.run(['trust', '--list'])).out).toBe('you trust no file of a repository\n');
    expect(statSync(`${parley.home}/.parley/trusted.json`).mode & 0o777).toBe(0o600);
  });

  it('does not count for a file that every account can write', async () => {
    const { parley, repo } = await cloned(HOSTILE);
    await parley.byPerson(['trust'], { cwd: repo });
    expect((await parley.run(['whoami'], { cwd: repo })).out).toStartWith('@payroll');
    chmodSync(`${repo}/.parley.json`, 0o666);
    expect((await parley.run(['whoami'], { cwd: repo })).out).toStartWith('@me');
  });

  it('means the place and the text: neither a copy elsewhere nor a link to it counts', async () => {
    const { parley, repo } = await cloned(HOSTILE);
    await parley.byPerson(['trust', repo]);
    const other = await cloned({});
    symlinkSync(`${repo}/.parley.json`, `${other.repo}/.parley.json`);
    expect((await parley.run(['whoami'], { cwd: other.repo })).out).toStartWith('@me ');
    const link = `${temporaryHome()}/link`;
    symlinkSync(repo, link);
    expect((await parley.run(['whoami'], { cwd: link })).out).toStartWith('@payroll ');
  });

  it('is the user’s alone', async () => {
    const { parley, repo } = await cloned(HOSTILE);
    for (const run of [
      await parley.withoutTerminal(['trust', repo]),
      await parley.withoutTerminal(['trust', repo], { env: { CLAUDECODE: '1' } }),
      await parley.byPerson(['trust', repo], { env: { OPENCODE: '1' } }),
      await parley.byPerson(['trust', '--revoke', repo], { env: { OPENCODE: '1' } }),
    ]) {
      expect(run).toMatchObject({ code: 77, out: '' });
      expect(run.err).toContain('Only the user can trust the files of a repository');
    }
    expect((await parley.run(['trust', '--list'])).out).toBe('you trust no file of a repository\n');
  });

  it('makes nobody a person, and sets no relay', async () => {
    const { parley, repo } = await cloned({ '.parley.json': '{"agent": "ada", "relay": "evil"}' });
    const early = await parley.byPerson(['trust', repo]);
    expect(early.out).toBe(`trusted ${repo}/.parley.json: agent "ada"\n`);
    await parley.byPerson(['init', 'ada', '--human']);
    const run = await parley.byPerson(['whoami'], { cwd: repo });
    expect(run.out).toStartWith('@me ');
    expect(run.err).toContain(
      'A project file can only name an agent; @ada is a person. Use --as ada at your own terminal.',
    );
    expect((await parley.byPerson(['trust', repo])).err).toContain('names @ada, a person');
  });

  it('refuses what it cannot read or is no such file, and trusts nothing then', async () => {
    const { parley, repo } = await cloned({ '.parley.json': '{', 'notes.json': '{}' });
    expect((await parley.byPerson(['trust', repo])).err).toContain('is not readable as JSON');
    expect((await parley.byPerson(['trust', `${repo}/notes.json`])).err).toContain(
      'is neither a folder, nor a .parley.json',
    );
    expect((await parley.byPerson(['trust', temporaryHome()])).err).toContain('there is no .parley.json');
    expect((await parley.run(['trust', '--list'])).out).toBe('you trust no file of a repository\n');
  });

  it('covers .c2c/repo.json of the repository too, and installers write neither', async () => {
    const { parley, repo } = await cloned({ ...HOSTILE, '.c2c/repo.json': '{"supervisors": ["eve"]}' });
    const shown = await parley.run(['repo', 'show', '--json'], { cwd: repo, name: 'c2c' });
    expect(JSON.parse(shown.out)).toEqual({
      supervisors: [],
      file: { path: `${repo}/.c2c/repo.json`, supervisors: ['eve'], trust: 'unknown', trouble: null },
    });
    expect((await parley.byPerson(['trust'], { cwd: `${repo}/src` })).out).toContain('supervisors eve');
    expect(JSON.parse((await parley.run(['repo', '--json'], { cwd: repo, name: 'c2c' })).out)).toMatchObject({
      supervisors: ['eve'],
    });
    expect(readFileSync(`${repo}/.c2c/repo.json`, 'utf8')).toBe('{"supervisors": ["eve"]}');
  });
});

describe('a hook', () => {
  it('never serves a person’s mailbox, however the session came to it', async () => {
    const hooks = await new Hooks().with('bob');
    await hooks.mail.directory.register('ada' as never, 'human');
    await hooks.send({ body: 'private' }, 'ada');
    const message = await hooks.send({ body: 'for bob' });
    const asked = await hooks.start('claude', JSON.stringify(hooks.event()), { PARLEY_AGENT: 'ada' }).ended();
    expect(asked).toMatchObject({ code: 0, out: '' });
    expect(asked.err).toContain('@ada is a person. This serves a model');
    mkdirSync(`${hooks.home}/sessions/s2`, { recursive: true });
    writeFileSync(
      `${hooks.home}/sessions/s2/session.json`,
      JSON.stringify({ v: 1, by: 'init', agent: 'ada', match: 'x', cwd: hooks.user }),
    );
    const said = await hooks.said({ session_id: 's2' });
    expect([...bodiesIn(said).values()]).toEqual(['for bob']);
    expect(message.to).toBe('@bob');
    const byOption = await hooks
      .start('claude', JSON.stringify(hooks.event({ session_id: 's3' })), {}, ['--as', 'ada'])
      .ended();
    expect(byOption).toMatchObject({ code: 0, out: '' });
  });
});
