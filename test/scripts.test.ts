import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const SCRIPTS = join(import.meta.dir, '../scripts');
let folder = '';

beforeEach(() => {
  folder = mkdtempSync(`${tmpdir()}/parley-scripts-`);
  mkdirSync(`${folder}/bin`);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A program of this name that is first on the search path. */
function plant(name: string, script: string): void {
  writeFileSync(`${folder}/bin/${name}`, `#!/bin/sh\n${script}\n`);
  chmodSync(`${folder}/bin/${name}`, 0o755);
}

function node(args: string[], env: Record<string, string> = {}) {
  const PATH = `${folder}/bin:${process.env['PATH']}`;
  return Bun.spawn([Bun.which('node') ?? 'node', ...args], {
    cwd: folder,
    env: { ...process.env, PATH, ...env },
    stdout: 'pipe',
    stderr: 'pipe',
  });
}

describe('an install by npm', () => {
  it('shows how many packages are there while it still runs', async () => {
    const packages = { '': {}, 'node_modules/a': {}, 'node_modules/@b/c': {}, 'node_modules/d': { os: ['none'] } };
    writeFileSync(`${folder}/package-lock.json`, JSON.stringify({ packages }));
    // It ends only after its progress was read.
    plant('npm', 'mkdir -p node_modules/a; while [ ! -e enough ]; do sleep 0.1; done');
    const child = node(['-e', `import('${SCRIPTS}/npm.mjs').then(({ npm }) => npm(['ci'], '.'))`]);
    let shown = '';
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) {
      shown += text;
      if (shown.includes('npm ci: 1 of 2 packages')) writeFileSync(`${folder}/enough`, '');
    }
    expect(await child.exited).toBe(0);
    expect(shown).toContain('npm ci: 1 of 2 packages');
    expect(shown).toContain('npm ci: done after');
  });
});

describe('npm run canary', () => {
  const pinned = JSON.parse(readFileSync(join(import.meta.dir, 'clients/package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };

  /** What it prints where npm is this script. */
  async function canary(script: string, ...words: string[]): Promise<{ out: string; code: number }> {
    plant('npm', script);
    const env = { PARLEY_CANARY: `${folder}/canary`, PARLEY_CLIENTS: `${folder}/pinned` };
    const child = node([`${SCRIPTS}/canary.mjs`, ...words], env);
    return { out: await new Response(child.stdout).text(), code: await child.exited };
  }

  /** An npm that knows release 99.0.0 of each client, and installs programs that say so; a Kimi, only if it starts. */
  function newestReleases(startsKimi: boolean): string {
    const programs = [
      '@anthropic-ai/claude-code-x/claude',
      '@openai/codex-x/vendor/x/bin/codex',
      'opencode-x/bin/opencode',
    ];
    const kimi = '@moonshot-ai/kimi-code/dist/main.mjs';
    const gemini = '@google/gemini-cli/bundle/gemini.js';
    const written = (path: string, text: string): string =>
      `mkdir -p "$(dirname node_modules/${path})"; printf '${text}' >node_modules/${path}; chmod +x node_modules/${path}`;
    return [
      'if [ "$1" = view ]; then echo 99.0.0; exit; fi',
      ...programs.map((path) => written(path, '#!/bin/sh\\necho 99.0.0\\n')),
      written(gemini, 'console.log("99.0.0")'),
      written(kimi, startsKimi ? 'console.log("99.0.0")' : 'throw 1'),
    ].join('\n');
  }

  /** A list of programs of the pinned versions, with Kimi among them, and a test that passes with every client. */
  function pinnedClients(): string {
    mkdirSync(`${folder}/pinned`);
    const programs = Object.fromEntries(Object.keys(pinned.dependencies).map((name) => [name, 'x']));
    writeFileSync(`${folder}/pinned/programs.json`, JSON.stringify({ versions: pinned.dependencies, programs }));
    writeFileSync(`${folder}/own.test.ts`, `import { it } from 'bun:test'; it('x', () => {});`);
    return `${folder}/own.test.ts`;
  }

  it.each([
    [true, '1 passed, 0 failed with the newest releases\n', 0],
    [false, '1 passed, 1 failed with the newest releases\n', 1],
  ])('fails unless each client that started before starts: %p', async (starts, end, code) => {
    const { out, ...rest } = await canary(newestReleases(starts), pinnedClients());
    expect(out.includes('✗ @moonshot-ai/kimi-code 99.0.0 does not start on this machine\n')).toBe(!starts);
    expect(out).toEndWith(end);
    expect(rest.code).toBe(code);
  });

  it('replaces only a folder that it filled itself', async () => {
    const test = pinnedClients();
    mkdirSync(`${folder}/canary`);
    writeFileSync(`${folder}/canary/mine.txt`, 'mine');
    const { out, code } = await canary(newestReleases(true), test);
    expect(out).toEndWith('/canary has files that are not ours, so it was left alone; name a new or empty folder\n');
    expect(code).toBe(1);
    expect(readFileSync(`${folder}/canary/mine.txt`, 'utf8')).toBe('mine');
    rmSync(`${folder}/canary`, { recursive: true });
    mkdirSync(`${folder}/canary`);
    writeFileSync(`${folder}/canary/programs.json`, '{"versions": {}, "programs": {}}');
    expect((await canary(newestReleases(true), test)).code).toBe(0);
    expect(readdirSync(folder).filter((name) => name.startsWith('canary'))).toEqual(['canary']);
  });

  it('says in one line that the registry does not answer', async () => {
    expect(await canary('exit 1')).toEqual({
      out: 'the npm registry does not answer, so the newest releases cannot be had; nothing was run\n',
      code: 1,
    });
  });

  it('runs nothing where nothing is newer', async () => {
    const cases = Object.entries(pinned.dependencies).map(([name, version]) => `${name}) echo ${version} ;;`);
    const { out, code } = await canary(`case $2 in ${cases.join(' ')} esac`);
    expect(out).toEndWith('nothing is newer than what the tests use; nothing was run\n');
    expect(code).toBe(0);
  });

  it('says which versions it would try, and why it cannot', async () => {
    const { out, code } = await canary('if [ "$1" = view ]; then echo 99.0.0; else exit 1; fi');
    expect(out).toContain(`@openai/codex ${pinned.dependencies['@openai/codex']} → 99.0.0\n`);
    expect(out).toEndWith('npm install did not finish; check the network or the npm registry setting\n');
    expect(code).toBe(1);
  });
});

describe('npm test', () => {
  it('gives tests an empty home of their own, and prints a line for each file', async () => {
    const report = `${folder}/home`;
    writeFileSync(
      `${folder}/own.test.ts`,
      `import { it } from 'bun:test';
       import { readdirSync, writeFileSync } from 'node:fs';
       it('x', () => writeFileSync('${report}', JSON.stringify([process.env.HOME, readdirSync(process.env.HOME)])));`,
    );
    const child = node([`${SCRIPTS}/test.mjs`, `${folder}/own.test.ts`]);
    const out = await new Response(child.stdout).text();
    expect(out).toMatch(/own\.test\.ts: 1 passed \(\d+ s\)\n/);
    expect(out).toEndWith('1 passed, 0 failed\n');
    const [home, entries] = JSON.parse(readFileSync(report, 'utf8'));
    expect(home).not.toBe(process.env['HOME']);
    expect(entries).toEqual([]);
  });

  it.each([
    ['is killed', `import { it } from 'bun:test'; it('x', () => process.kill(process.pid, 'SIGKILL'));`, 'SIGKILL'],
    ['does not load', `import './nowhere.ts';`, '1'],
  ])('counts and names a file that %s, and goes on', async (_what, source, end) => {
    writeFileSync(`${folder}/bad.test.ts`, source);
    writeFileSync(`${folder}/good.test.ts`, `import { it } from 'bun:test'; it('y', () => {});`);
    const child = node([`${SCRIPTS}/test.mjs`, `${folder}/bad.test.ts`, `${folder}/good.test.ts`]);
    const out = await new Response(child.stdout).text();
    expect(out).toContain(`✗ ${folder}/bad.test.ts ended with ${end}\n`);
    expect(out).toMatch(/bad\.test\.ts: 1 failed \(\d+ s\)\n/);
    expect(out).toEndWith('1 passed, 1 failed\n');
    expect(await child.exited).toBe(1);
  });

  it('names the system packages that are missing and the line to type, and installs nothing where that is forbidden', async () => {
    // Nothing but a shell is on the search path, and an apt-get that must not run.
    const shell = Bun.which('sh');
    if (shell) symlinkSync(shell, `${folder}/bin/sh`);
    plant('apt-get', `echo called >'${folder}/called'`);
    const script = `import('${SCRIPTS}/system-packages.mjs').then(({ systemPackages }) => systemPackages())`;
    const child = node(['-e', script], { PATH: `${folder}/bin`, PARLEY_TEST_NO_INSTALL: '1', CI: '' });
    const out = await new Response(child.stdout).text();
    expect(out).toContain('To run them: sudo apt-get install -y dash strace openssl tmux git python3');
    expect(out).toContain('skipped without tmux');
    expect(await Bun.file(`${folder}/called`).exists()).toBe(false);
  });
});
