import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { version } from '../../package.json' with { type: 'json' };
import { temporaryHome } from '../support/home.ts';
import { PARLEY, personAt } from '../support/program.ts';

const ROOT = new URL('../..', import.meta.url).pathname;

interface Run {
  code: number | null;
  out: string;
  err: string;
}

function run(program: string, args: string[], options: { env: Record<string, string>; cwd?: string }): Run {
  const done = spawnSync(program, args, { encoding: 'utf8', cwd: options.cwd ?? '/', env: options.env });
  return { code: done.status, out: done.stdout, err: done.stderr };
}

const users: string[] = [];

/** A user with an empty home and a search path that ends with the system's. */
function aUser(): { home: string; bin: string; env: Record<string, string> } {
  const home = temporaryHome();
  users.push(home);
  const bin = `${home}/.local/bin`;
  return { home, bin, env: { HOME: home, PATH: `${bin}:/usr/bin:/bin`, BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0' } };
}

function aForeignProgram(path: string): void {
  writeFileSync(path, '#!/bin/sh\necho another program\n');
  chmodSync(path, 0o755);
}

describe('parley self', () => {
  let binary = '';

  beforeAll(() => {
    binary = `${temporaryHome()}/parley`;
    copyFileSync(PARLEY, binary);
  });

  // Each installed program has a hundred megabytes.
  afterEach(() => {
    for (const home of users.splice(0)) rmSync(home, { recursive: true, force: true });
  });

  it('started in a temporary folder it names the lines that install it, and those lines work', () => {
    const { home, bin, env } = aUser();
    const here = { env: { ...env, PATH: '/usr/bin:/bin', TMPDIR: tmpdir() } };
    run(binary, ['init', 'claude'], here);
    const refused = run(binary, ['install', 'claude'], here);
    expect(refused).toMatchObject({ code: 64, out: '' });
    const [, first = '', second = ''] = /; run `(.+?)`, then `(.+?)`/.exec(refused.err) ?? [];
    expect([first, second]).toEqual([`${binary} self install`, `${bin}/parley install claude`]);
    expect(run('sh', ['-c', first], here).code).toBe(0);
    expect(run(binary, ['install', 'claude'], here).err).toContain(`run the installed one: \`${second}\``);
    const installed = run('sh', ['-c', second], here);
    expect(installed.code).toBe(0);
    expect(readFileSync(`${home}/.claude.json`, 'utf8')).toContain(`"${bin}/parley"`);
    expect(installed.err).toContain(`HOME is ${home}, a temporary folder`);
  });

  it('is named in `doctor` under each of its names', () => {
    const { env } = aUser();
    run(binary, ['self', 'install', '--names', 'bch,ccc'], { env });
    const { out } = run('parley', ['doctor'], { env });
    expect(out).toMatch(/^ok +PATH +bch is /m);
    expect(out).toMatch(/^ok +PATH +ccc is /m);
  });
  afterAll(() => rmSync(binary, { force: true }));

  it('installs a program that works, in ~/.local/bin, and no other name', () => {
    const { bin, env } = aUser();
    const installed = run(binary, ['self', 'install'], { env });
    expect(installed).toMatchObject({ code: 0, out: `installed ${bin}/parley ${version}\nNext: parley init <name>\n` });
    expect(readdirSync(bin)).toEqual(['parley']);
    expect(statSync(`${bin}/parley`).mode & 0o777).toBe(0o755);
    expect(run('parley', ['version'], { env }).out).toContain(`parley ${version} (`);
  });

  it('installs the names that are asked for, and each speaks its own dialect', () => {
    const { bin, env } = aUser();
    const names = ['bch', 'c2c', 'c2c-deliver-inbox', 'ccc'];
    const installed = run(binary, ['self', 'install', '--names', names.join(','), '--json'], { env });
    expect(JSON.parse(installed.out)).toMatchObject({ onPath: true, shadowedBy: null });
    expect(names.map((name) => readlinkSync(`${bin}/${name}`))).toEqual(names.map(() => 'parley'));
    expect(run('c2c-deliver-inbox', ['--help'], { env }).out).toStartWith('usage: c2c deliver-inbox ');
    expect(run('ccc', [], { env }).err).toContain('ccc');
    expect(run('bch', ['version'], { env }).out).not.toContain('parley');
  });

  it('carries the plugin for OpenCode, and takes it out again before it goes', () => {
    const { home, bin, env } = aUser();
    run(binary, ['self', 'install', '--names', 'c2c'], { env });
    const elsewhere = { ...env, TMPDIR: '/nowhere', XDG_RUNTIME_DIR: home };
    expect(run(`${bin}/c2c`, ['install', 'opencode'], { env: elsewhere, cwd: home })).toMatchObject({
      code: 0,
      err: '',
    });
    const [before = '', ...after] = readFileSync(`${ROOT}plugins/opencode/c2c.ts`, 'utf8').split(
      "const COMMAND = 'c2c';",
    );
    const written = readFileSync(`${home}/.config/opencode/plugins/c2c.ts`, 'utf8');
    expect(after).toHaveLength(1);
    expect(written).toBe(`${before}const COMMAND = "${home}/.local/share/c2c/bin/c2c";${after[0]}`);
    expect(run('parley', ['self', 'uninstall'], { env: elsewhere }).code).toBe(0);
    expect(existsSync(`${home}/.config`)).toBe(false);
  });

  it('says how to reach a folder that is not on the search path', () => {
    const { home, env } = aUser();
    const installed = run(binary, ['self', 'install', '--dir', 'my programs'], { env, cwd: home });
    expect(installed.code).toBe(0);
    expect(installed.err).toContain(`export PATH="${realpathSync(home)}/my programs:$PATH"`);
    expect(run(`${home}/my programs/parley`, ['version'], { env }).code).toBe(0);
  });

  it('never replaces a program of others, and then installs nothing at all', () => {
    const { bin, env } = aUser();
    mkdirSync(bin, { recursive: true });
    aForeignProgram(`${bin}/bch`);
    const refused = run(binary, ['self', 'install', '--names', 'bch'], { env });
    expect(refused).toMatchObject({ code: 73, out: '' });
    expect(refused.err).toContain(`${bin}/bch is another program; nothing was installed`);
    expect(readdirSync(bin)).toEqual(['bch']);
    expect(run('bch', [], { env }).out).toBe('another program\n');
  });

  it('keeps what it replaces when told to, and puts it back', () => {
    const { bin, env } = aUser();
    mkdirSync(bin, { recursive: true });
    aForeignProgram(`${bin}/bch`);
    aForeignProgram(`${bin}/parley`);
    expect(run(binary, ['self', 'install', '--names', 'bch', '--force'], { env }).code).toBe(0);
    expect(run('parley', ['version'], { env }).out).toContain(version);
    // An update in between does not lose what had been there.
    expect(run(`${bin}/parley`, ['self', 'install', '--names', 'bch'], { env }).code).toBe(0);
    const removed = run('parley', ['self', 'uninstall'], { env });
    expect(removed.code).toBe(0);
    expect(removed.out).toContain(`restored ${bin}/bch`);
    expect(readdirSync(bin).sort()).toEqual(['bch', 'parley']);
    expect(run('bch', [], { env }).out).toBe('another program\n');
    expect(run('parley', [], { env }).out).toBe('another program\n');
  });

  it('replaces its own older program without being forced to', () => {
    const { home, bin, env } = aUser();
    run(binary, ['self', 'install'], { env });
    const older = 'an older Parley';
    writeFileSync(`${bin}/parley`, older);
    // Changed by whom? Only what the manifest says can be trusted.
    expect(run(binary, ['self', 'install'], { env }).code).toBe(73);
    const is = `sha256:${new Bun.CryptoHasher('sha256').update(older).digest('hex')}`;
    writeFileSync(`${home}/.parley/self.json`, JSON.stringify({ v: 1, files: [{ path: `${bin}/parley`, is }] }));
    expect(run(binary, ['self', 'install'], { env }).code).toBe(0);
    expect(run('parley', ['version'], { env }).out).toContain(version);
    expect(readdirSync(bin)).toEqual(['parley']);
  });

  it('uninstalls exactly what it installed', () => {
    const { home, bin, env } = aUser();
    mkdirSync(bin, { recursive: true });
    aForeignProgram(`${bin}/other`);
    run(binary, ['self', 'install', '--names', 'bch'], { env });
    const removed = run('parley', ['self', 'uninstall'], { env });
    expect(removed).toMatchObject({ code: 0, out: `removed ${bin}/bch\nremoved ${bin}/parley\n` });
    expect(readdirSync(bin)).toEqual(['other']);
    expect(existsSync(`${home}/.parley`)).toBe(false);
    expect(run(binary, ['self', 'uninstall'], { env })).toMatchObject({ code: 66 });
  });

  it('leaves alone what somebody has put in its place since', () => {
    const { bin, env } = aUser();
    run(binary, ['self', 'install', '--names', 'bch'], { env });
    rmSync(`${bin}/bch`);
    aForeignProgram(`${bin}/bch`);
    const refused = run(binary, ['self', 'install', '--names', 'bch'], { env });
    expect(refused.code).toBe(73);
    const removed = run(binary, ['self', 'uninstall'], { env });
    expect(removed.err).toContain(`${bin}/bch stays`);
    expect(readdirSync(bin)).toEqual(['bch']);
  });

  it('keeps the mail unless told twice to remove it, and never touches a Backchannel home', () => {
    const { home, env } = aUser();
    run(binary, ['self', 'install'], { env });
    for (const name of ['alice', 'bob']) run('parley', ['init', name], { env });
    run('parley', ['send', '@bob', 'hello'], { env });
    mkdirSync(`${home}/.backchannel/agents`, { recursive: true });
    writeFileSync(`${home}/.backchannel/agents/carol.json`, '{"name":"carol"}');
    const relay = `${home}/.parley/relays/dora@relay.example`;
    mkdirSync(relay, { recursive: true });
    writeFileSync(
      `${relay}/relay.json`,
      JSON.stringify({ v: 1, agent: 'dora', url: 'https://relay.example', token: 't' }),
    );
    const asked = run('parley', ['self', 'uninstall', '--purge'], { env });
    expect(asked.code).toBe(64);
    const lost = ['@bob (1 waiting)', '@alice (0 waiting)', '@dora at https://relay.example (its token)'];
    const lines = lost.map((line) => `  ${line}\n`).join('');
    expect(asked.err).toContain(`with ${home}/.parley this would be deleted:\n${lines}parley: `);
    expect(run('parley', ['inbox', '--as', 'bob'], { env }).out).toContain('hello');
    const purged = run('parley', ['self', 'uninstall', '--purge', '--yes'], { env });
    expect(purged.code).toBe(0);
    expect(purged.out).toContain(`removed ${home}/.parley, with:\n${lines}`);
    expect(purged.err).toBe(`${home}/.backchannel stays: the mail of bch; delete it yourself if you do not need it\n`);
    expect(readdirSync(home).sort()).toEqual(['.backchannel']);
    expect(readdirSync(`${home}/.backchannel/agents`)).toEqual(['carol.json']);
  });

  it('asks at a terminal before it removes anything', async () => {
    const { home, bin, env } = aUser();
    run(binary, ['self', 'install'], { env });
    run('parley', ['init', 'alice'], { env });
    const person = (typed: string) =>
      personAt({ command: [`${bin}/parley`, 'self', 'uninstall', '--purge'], cwd: '/', env, typed });
    const no = await person('no');
    expect(no.shown).toContain(
      `:\n  @alice (0 waiting)\nRemove Parley, and delete ${home}/.parley with all of this? Type yes:`,
    );
    expect(no.shown).toContain('nothing was removed');
    expect(existsSync(`${bin}/parley`)).toBe(true);
    const yes = await person('yes');
    expect(yes.code).toBe(0);
    // Each mailbox is named once.
    expect(yes.shown.split('@alice')).toHaveLength(2);
    expect(existsSync(`${bin}/parley`)).toBe(false);
    expect(existsSync(`${home}/.parley`)).toBe(false);
  });

  it('names ten mailboxes and counts the others', () => {
    const { env } = aUser();
    run(binary, ['self', 'install'], { env });
    for (let n = 1; n <= 12; n += 1) run('parley', ['init', `agent-${n}`], { env });
    run('parley', ['send', '@agent-12', 'hello'], { env });
    const { err } = run('parley', ['self', 'uninstall', '--purge'], { env });
    const listed = err.split('\n').filter((line) => line.startsWith('  '));
    expect(listed).toHaveLength(11);
    expect([listed[0], listed[10]]).toEqual(['  @agent-12 (1 waiting)', '  and 2 more mailboxes (0 waiting)']);
  });

  it('says that the program stays where `self install` did not put it', () => {
    const { env } = aUser();
    run(binary, ['init', 'alice'], { env });
    const { err, code } = run(binary, ['self', 'uninstall', '--purge', '--yes'], { env });
    expect([err, code]).toEqual([`the program itself stays; it is ${binary}\n`, 0]);
  });

  it.each([
    ['the home of the user', (home: string) => home],
    ['a folder that holds the Backchannel home', (home: string) => `${home}/all`],
    ['a folder that is no home', (home: string) => `${home}/none`],
  ])('refuses to purge %s', (_name, root) => {
    const { home, env } = aUser();
    mkdirSync(`${home}/all/.backchannel`, { recursive: true });
    mkdirSync(`${home}/none`);
    writeFileSync(`${home}/none/thesis.txt`, 'years of work');
    for (const folder of [home, `${home}/all`]) writeFileSync(`${folder}/config.json`, '{}');
    const before = readdirSync(home, { recursive: true });
    const homes = { PARLEY_HOME: root(home), BACKCHANNEL_HOME: `${home}/all/.backchannel` };
    const refused = run(binary, ['self', 'uninstall', '--purge', '--yes'], { env: { ...env, ...homes } });
    expect(refused).toMatchObject({ code: 64, out: '' });
    expect(readdirSync(home, { recursive: true })).toEqual(before);
  });

  it.each([
    ['a name it does not answer to', ['install', '--names', 'bhc'], 'did you mean bch?'],
    ['an option of the other verb', ['uninstall', '--dir', '/x'], 'belong to install'],
    ['no verb that it knows', ['remove'], 'usage'],
  ])('refuses %s', (_name, words, said) => {
    const { env } = aUser();
    const refused = run(binary, ['self', ...words], { env });
    expect(refused).toMatchObject({ code: 64, out: '' });
    expect(refused.err).toContain(said);
  });
});

describe('the launcher of the npm package', () => {
  let packed = '';

  /** What `npm i` would put into a node_modules folder: the tarball of this project, unpacked. */
  beforeAll(() => {
    packed = temporaryHome();
    const npm = spawnSync('npm', ['pack', '--ignore-scripts', '--loglevel=error', '--pack-destination', packed], {
      cwd: ROOT,
      encoding: 'utf8',
      env: { ...process.env, npm_config_cache: `${packed}/cache`, npm_config_update_notifier: 'false' },
    });
    if (npm.status !== 0) throw new Error(npm.stderr);
    const unpacked = spawnSync('tar', ['-xzf', `parley-mail-${version}.tgz`], { cwd: packed, encoding: 'utf8' });
    if (unpacked.status !== 0) throw new Error(unpacked.stderr);
  });

  /** Unpacked at a place, with a link to it on the search path, as npm makes one. */
  function installedAt(folder: string): string {
    mkdirSync(`${folder}/bin`, { recursive: true });
    mkdirSync(`${folder}/lib/node_modules`, { recursive: true });
    spawnSync('cp', ['-r', `${packed}/package`, `${folder}/lib/node_modules/parley-mail`]);
    symlinkSync('../lib/node_modules/parley-mail/bin/parley', `${folder}/bin/parley`);
    return `${folder}/lib/node_modules`;
  }

  const USER = (home: string): Record<string, string> => ({ HOME: home, PATH: '/usr/bin:/bin' });
  const bun = realpathSync(process.execPath);

  it('finds the Bun inside the package, through links, from any folder', () => {
    const folder = `${temporaryHome()}/with blanks`;
    const modules = installedAt(folder);
    symlinkSync(`${ROOT}node_modules`, `${modules}/parley-mail/node_modules`);
    symlinkSync(`${folder}/bin/parley`, `${folder}/again`);
    const home = temporaryHome();
    const { code, out } = run(`${folder}/again`, ['version'], { env: USER(home) });
    expect({ code, out }).toEqual({
      code: 0,
      out: `parley ${version} (Bun ${Bun.version}, ledger format 5, from source)\n`,
    });
    expect(run('./parley', ['version'], { env: USER(home), cwd: `${folder}/bin` }).code).toBe(0);
    expect(run('sh', ['parley', 'version'], { env: USER(home), cwd: `${folder}/bin` }).code).toBe(0);
    // Bun's own cache stays in the installation, and the home stays empty.
    expect(readdirSync(home)).toEqual([]);
    expect(readdirSync(`${modules}/parley-mail/.cache`).length).toBeGreaterThan(0);
  });

  it('finds the Bun beside the package', () => {
    const folder = temporaryHome();
    const modules = installedAt(folder);
    mkdirSync(`${modules}/bun/bin`, { recursive: true });
    symlinkSync(bun, `${modules}/bun/bin/bun.exe`);
    for (const name of ['valibot', 'jsonc-parser']) symlinkSync(`${ROOT}node_modules/${name}`, `${modules}/${name}`);
    expect(run(`${folder}/bin/parley`, ['version'], { env: USER(temporaryHome()) }).code).toBe(0);
  });

  it('finds the Bun of the platform where npm ran no install scripts', () => {
    const folder = temporaryHome();
    const modules = installedAt(folder);
    for (const [path, target] of [
      ['bun-linux-x64', bun],
      ['bun-linux-x64-android', '/bin/false'],
    ] as const) {
      mkdirSync(`${modules}/@oven/${path}/bin`, { recursive: true });
      symlinkSync(target, `${modules}/@oven/${path}/bin/bun`);
    }
    mkdirSync(`${modules}/bun/bin`, { recursive: true });
    writeFileSync(`${modules}/bun/bin/bun.exe`, '#!/bin/sh\necho placeholder; exit 1\n', { mode: 0o755 });
    for (const name of ['valibot', 'jsonc-parser']) symlinkSync(`${ROOT}node_modules/${name}`, `${modules}/${name}`);
    expect(run(`${folder}/bin/parley`, ['version'], { env: USER(temporaryHome()) }).code).toBe(0);
  });

  it('says so in one line where there is no Bun', () => {
    const folder = temporaryHome();
    installedAt(folder);
    const refused = run(`${folder}/bin/parley`, ['version'], { env: USER(temporaryHome()) });
    expect(refused).toMatchObject({ code: 69, out: '' });
    expect(refused.err.trim().split('\n')).toHaveLength(1);
  });

  it("is not moved by a stranger's folder: its .env, bunfig.toml and tsconfig.json change nothing", () => {
    const folder = temporaryHome();
    symlinkSync(`${ROOT}node_modules`, `${installedAt(folder)}/parley-mail/node_modules`);
    const project = temporaryHome();
    writeFileSync(`${project}/.env`, 'PARLEY_AGENT=stranger\n');
    writeFileSync(`${project}/bunfig.toml`, 'preload = ["./stranger.ts"]\n');
    writeFileSync(
      `${project}/tsconfig.json`,
      '{ "compilerOptions": { "baseUrl": ".", "paths": { "valibot": ["./stranger.ts"] } } }',
    );
    writeFileSync(`${project}/stranger.ts`, 'console.log("stranger")');
    const { code, out } = run(`${folder}/bin/parley`, ['config', 'agent', '--json'], {
      env: USER(temporaryHome()),
      cwd: project,
    });
    expect(code).toBe(0);
    expect(out).not.toContain('stranger');
    expect(JSON.parse(out)).toMatchObject({ value: null, from: 'default' });
  });

  it('ships what it needs and an executable launcher', () => {
    const { mode } = statSync(`${packed}/package/bin/parley`);
    expect(mode & 0o111).toBe(0o111);
    expect(readdirSync(`${packed}/package`)).toEqual(
      expect.arrayContaining(['SKILL.md', 'bin', 'package.json', 'plugins', 'src', 'tsconfig.json']),
    );
  });
});
