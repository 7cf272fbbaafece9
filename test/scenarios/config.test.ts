import { describe, expect, it } from 'bun:test';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AgentRecord } from '../../src/core/ports/directory.ts';
import { HostClient } from '../support/host-client.ts';
import { PARLEY, Program } from '../support/program.ts';

interface Setting {
  name: string;
  value: unknown;
  from: string;
}
interface Config {
  settings: Setting[];
  warnings: string[];
}

/** A program whose config.json holds this text. */
function configured(text: string, extra: Record<string, string> = {}): Program & { file: string } {
  const parley = new Program(undefined, extra);
  const file = `${parley.home}/.parley/config.json`;
  mkdirSync(`${parley.home}/.parley`, { mode: 0o700 });
  writeFileSync(file, text, { mode: 0o600 });
  return Object.assign(parley, { file });
}

async function settingOf(parley: Program, name: string, cwd?: string): Promise<Setting | undefined> {
  const run = await parley.run(['config', '--json'], cwd ? { cwd } : {});
  return (JSON.parse(run.out) as Config).settings.find((setting) => setting.name === name);
}

describe('settings', () => {
  it('have defaults that need no file, and showing them makes none', async () => {
    const parley = new Program();
    const { settings, warnings } = await parley.json<Config>(['config']);
    expect(Object.fromEntries(settings.map(({ name, value }) => [name, value]))).toEqual({
      agent: null,
      match: null,
      relay: null,
      bodyLimit: 262_144,
      durability: 'normal',
      keepBodies: '30d',
      keepFacts: '180d',
      composeMs: 2500,
      wakesPerHour: 60,
      captureRemote: 'off',
    });
    expect(new Set(settings.map(({ from }) => from))).toEqual(new Set(['default']));
    expect(warnings).toEqual([]);
    expect(existsSync(`${parley.home}/.parley`)).toBe(false);
  });

  it('come from the flag, then the environment, then a trusted project, then the home', async () => {
    const parley = configured('{ "agent": "from-home", "match": "from-home" }');
    const project = `${parley.home}/project`;
    const deep = `${project}/a/b`;
    mkdirSync(deep, { recursive: true });
    expect(await settingOf(parley, 'agent', deep)).toMatchObject({ value: 'from-home', from: parley.file });
    writeFileSync(`${project}/.parley.json`, '{ "agent": "from-project" }');
    await parley.byPerson(['trust', project]);
    expect(await settingOf(parley, 'agent', deep)).toMatchObject({
      value: 'from-project',
      from: `${project}/.parley.json`,
    });
    expect(await settingOf(parley, 'match', deep)).toMatchObject({ value: 'from-home' });
    const inEnvironment = await parley.run(['config', 'agent', '--json'], { as: 'from-environment', cwd: deep });
    expect(JSON.parse(inEnvironment.out)).toMatchObject({ value: 'from-environment', from: 'PARLEY_AGENT' });
    const byFlag = await parley.run(['config', 'agent', '--json', '--as', 'from-flag'], {
      as: 'from-environment',
      cwd: deep,
    });
    expect(JSON.parse(byFlag.out)).toMatchObject({ value: 'from-flag', from: 'flag' });
  });

  it('of a project cannot reach what only the home may decide', async () => {
    const parley = new Program();
    writeFileSync(`${parley.home}/.parley.json`, '{ "bodyLimit": 5, "keepBodies": 0, "relay": "evil" }');
    await parley.byPerson(['trust']);
    const { settings, warnings } = await parley.json<Config>(['config']);
    expect(settings.find(({ name }) => name === 'bodyLimit')).toMatchObject({ value: 262_144, from: 'default' });
    expect(settings.find(({ name }) => name === 'relay')).toMatchObject({ from: 'default' });
    for (const name of ['keepBodies', 'relay'])
      expect(warnings.join('\n')).toContain(`"${name}" cannot be set by a project`);
  });

  it('with an unknown key are used, with a warning that names the nearest', async () => {
    const parley = configured('{ "agnet": "alice", "keepBodies": "12h" }');
    const run = await parley.run(['config']);
    expect(run.code).toBe(0);
    expect(run.out).toMatch(/^keepBodies +12h +\/.*config\.json$/m);
    expect(run.err).toContain('unknown key "agnet"; did you mean "agent"?');
  });

  it.each([
    ['a negative span', '{ "keepBodies": -5 }', 'keepBodies'],
    ['a span too large to be written out', '{ "keepFacts": 1e21 }', 'keepFacts'],
    ['a wait that nobody would notice [C2A-65]', '{ "composeMs": 1999 }', 'composeMs'],
    ['a wait that is too long [C2A-65]', '{ "composeMs": 5001 }', 'composeMs'],
    ['a limit of nothing', '{ "bodyLimit": 0 }', 'bodyLimit'],
    ['a name that is a path', '{ "agent": "../x" }', 'agent'],
    ['text that is no JSON', '{ "agent": ', 'config.json'],
    ['a list', '[]', 'config.json'],
  ])('with %s are refused by name, and nothing is guessed', async (_name, text, named) => {
    const run = await configured(text).run(['inbox']);
    expect(run).toMatchObject({ code: 78, out: '' });
    expect(run.err).toStartWith('parley: ');
    expect(run.err.trim().split('\n')).toHaveLength(1);
    expect(run.err).toContain(named);
  });

  it('say how long the host waits for more of what a person writes [C2A-65]', async () => {
    const parley = await new Program().init('bob');
    await parley.byPerson(['init', 'will', '--human']);
    const env = { ...parley.env, PARLEY_COMPOSE_MS: '5000' };
    const client = HostClient.onStdio([PARLEY, 'host', '--stdio'], env);
    await client.initialize();
    await client.done('session/bind', { sessionId: 's', identities: ['bob'] });
    const began = Date.now();
    await parley.run(['send', '@bob', 'look at the parser'], { as: 'will' });
    client.ack(await client.event());
    expect(Date.now() - began).toBeGreaterThanOrEqual(5000);
    client.close();
    await client.exited;
  });
});

describe('parley config set', () => {
  const TEXT =
    '// my settings { "agent": "no" }\n{\n  /* "agent": */ "agent": "alice", // me\n  "keepBodies": 7 // a week\n}\n';

  it('changes one value and leaves every other byte alone', async () => {
    const parley = configured(TEXT);
    await parley.run(['config', 'set', 'agent', 'bob']);
    expect(readFileSync(parley.file, 'utf8')).toBe(TEXT.replace('"alice"', '"bob"'));
    await parley.run(['config', 'set', 'bodyLimit', '1000']);
    await parley.run(['config', 'unset', 'bodyLimit']);
    await parley.run(['config', 'set', 'agent', 'alice']);
    // The comma that the new member needed was given back with it.
    expect(readFileSync(parley.file, 'utf8')).toBe(TEXT);
    expect(statSync(parley.file).mode & 0o777).toBe(0o600);
  });

  it('makes a private file in a private home', async () => {
    const parley = new Program();
    await parley.run(['config', 'set', 'keepBodies', 'forever']);
    expect(statSync(`${parley.home}/.parley`).mode & 0o777).toBe(0o700);
    expect(statSync(`${parley.home}/.parley/config.json`).mode & 0o777).toBe(0o600);
    expect(await settingOf(parley, 'keepBodies')).toMatchObject({ value: 'forever' });
  });

  it('loses no setting when several processes change different ones at once', async () => {
    const parley = new Program();
    const pairs = [
      ['agent', 'alice'],
      ['match', 'here'],
      ['relay', 'there'],
      ['bodyLimit', '1000'],
      ['durability', 'full'],
      ['keepBodies', '1d'],
      ['keepFacts', '2d'],
      ['composeMs', '5000'],
      ['wakesPerHour', '5'],
      ['captureRemote', 'on'],
    ];
    const runs = await Promise.all(pairs.map((pair) => parley.run(['config', 'set', ...pair])));
    expect(runs.map(({ code }) => code)).toEqual(pairs.map(() => 0));
    const { settings } = await parley.json<Config>(['config']);
    expect(settings.map(({ name, value }) => [name, String(value)])).toEqual(pairs as [string, string][]);
  });

  it('has a switch per agent for captured answers, which another `init` leaves alone', async () => {
    const parley = await new Program().init('bob');
    const capture = (): unknown => {
      const record = JSON.parse(readFileSync(`${parley.home}/.parley/agents/bob.json`, 'utf8')) as AgentRecord;
      return record.parley?.capture;
    };
    expect((await parley.run(['init', 'bob', '--capture', 'off'])).out).toContain('is not sent as an answer');
    await parley.run(['init', 'bob']);
    expect(capture()).toBe('off');
    expect(await parley.run(['init', 'bob', '--capture', 'maybe'])).toMatchObject({ code: 64 });
    await parley.run(['init', 'bob', '--capture', 'on']);
    expect(capture()).toBeUndefined();
  });

  it('says who still decides when the file does not', async () => {
    const run = await new Program(undefined, { PARLEY_KEEP_BODIES: '1d' }).run(['config', 'set', 'keepBodies', '2d']);
    expect(run.err).toContain('PARLEY_KEEP_BODIES overrides it: keepBodies is 1d');
  });

  it('writes through a link into the file that it leads to', async () => {
    const parley = configured('{}');
    const kept = `${parley.home}/dotfiles.json`;
    writeFileSync(kept, '{ "agent": "alice" }');
    rmSync(parley.file);
    symlinkSync(kept, parley.file);
    await parley.run(['config', 'set', 'agent', 'bob']);
    expect(readFileSync(kept, 'utf8')).toBe('{ "agent": "bob" }');
  });

  it('mends a value that stops every other command', async () => {
    const parley = configured('{ "bodyLimit": "much" }');
    expect((await parley.run(['config', 'unset', 'bodyLimit'])).code).toBe(0);
    expect((await parley.run(['config'])).code).toBe(0);
  });

  it.each([
    ['an unknown key', ['set', 'keepBodis', '1d'], 64, 'did you mean keepBodies?'],
    ['an unusable value', ['set', 'keepBodies', 'soon'], 64, 'forever'],
    ['no value', ['set', 'keepBodies'], 64, 'usage'],
    ['a value to unset', ['unset', 'keepBodies', '1d'], 64, 'usage'],
  ])('refuses %s and leaves the file alone', async (_name, words, code, said) => {
    const parley = configured(TEXT);
    const run = await parley.run(['config', ...words]);
    expect(run.code).toBe(code);
    expect(run.err).toContain(said);
    expect(readFileSync(parley.file, 'utf8')).toBe(TEXT);
  });

  it.each([
    ['holds the key twice', '{ "agent": "a", "agent": "b" }'],
    ['cannot be read', '{ "agent": "a" '],
    ['is a list', '["agent"]'],
  ])('refuses a file that %s and leaves it alone', async (_name, text) => {
    const parley = configured(text);
    const run = await parley.run(['config', 'set', 'agent', 'carol']);
    expect(run).toMatchObject({ code: 78, out: '' });
    expect(run.err).toContain(parley.file);
    expect(readFileSync(parley.file, 'utf8')).toBe(text);
  });
});

describe('the home', () => {
  it('may have blanks and quotes in its path', async () => {
    const home = `${new Program().home}/a "home" of 'mine'`;
    mkdirSync(home);
    const parley = await new Program(home).init('alice', 'bob');
    expect((await parley.run(['send', '@bob', 'hi'])).code).toBe(0);
    expect((await parley.run(['drain'], { as: 'bob' })).out).toContain('hi');
    expect((await parley.run(['doctor'])).code).toBe(0);
  });

  it('is found without HOME, by asking the system', () => {
    const { PATH = '' } = process.env;
    const run = spawnSync(PARLEY, ['config'], {
      cwd: '/',
      env: { PATH, BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0' },
      encoding: 'utf8',
    });
    expect(run.status).toBe(0);
    expect(run.stdout).toContain('keepBodies');
  });

  it('that cannot be written gives one line that says so, for every command that writes', () => {
    withUnwritableHome((run) => {
      for (const words of [
        ['init', 'alice'],
        ['config', 'set', 'agent', 'alice'],
      ]) {
        const { status, stderr } = run(words);
        expect([words[0], status]).toEqual([words[0], 74]);
        expect(stderr.trim().split('\n')).toHaveLength(1);
        expect(stderr).toContain('cannot be written (EACCES)');
      }
      const doctor = run(['doctor']);
      expect(doctor.status).toBe(1);
      expect(doctor.stdout).toMatch(/^bad +home parley +.*cannot be written/m);
    });
  });

  it('with a config.json that its user may not read stops with one line that names it', () => {
    withUnwritableHome((run, home) => {
      chmodSync(home, 0o700);
      writeFileSync(join(home, 'config.json'), '{}', { mode: 0o000 });
      const { status, stderr } = run(['inbox']);
      expect(status).toBe(78);
      expect(stderr).toContain(join(home, 'config.json'));
      expect(run(['doctor']).stdout).toMatch(/^bad +config +.*config\.json is not readable/m);
    });
  });
});

type Runner = (words: string[]) => { status: number | null; stdout: string; stderr: string };

/** A home that belongs to a user without rights (root may write anywhere) and that he may only read. */
function withUnwritableHome(act: (run: Runner, home: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), 'parley-unwritable-'));
  const home = join(folder, 'home');
  mkdirSync(home, { mode: 0o500 });
  const isRoot = process.getuid?.() === 0;
  if (isRoot) {
    chmodSync(folder, 0o755);
    chownSync(home, 65_534, 65_534);
  }
  const { PATH = '' } = process.env;
  try {
    act(
      (words) =>
        spawnSync(PARLEY, [...words], {
          cwd: '/',
          env: { PATH, HOME: folder, PARLEY_HOME: home, BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0' },
          encoding: 'utf8',
          ...(isRoot && { uid: 65_534, gid: 65_534 }),
        }),
      home,
    );
  } finally {
    chmodSync(home, 0o700);
    rmSync(folder, { recursive: true, force: true });
  }
}
