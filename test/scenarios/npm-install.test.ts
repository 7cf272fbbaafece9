// `npm install -g` of the packed package, as the README says, with nothing but Node and npm. The packages come from a registry on loopback.
import { afterAll, beforeAll, expect, it } from 'bun:test';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { dependencies, version } from '../../package.json' with { type: 'json' };
import { temporaryHome } from '../support/home.ts';

const ROOT = new URL('../..', import.meta.url).pathname;
const MODULES = `${ROOT}node_modules`;
const NPM = Bun.which('npm') ?? '';
const SYSTEM = ['/usr/bin', '/bin', dirname(Bun.which('node') ?? '/usr/bin/node'), dirname(NPM)].join(':');
/** Bun's program for this machine, by the name of its package. */
const BUN_PACKAGES = readdirSync(`${MODULES}/@oven`).map((name) => `@oven/${name}`);

const folder = temporaryHome();
let registry: ReturnType<typeof Bun.serve>;

beforeAll(() => {
  const tarballs = new Map(
    [...withTheirs(Object.keys(dependencies)), ...BUN_PACKAGES].map((name) => [name, tarballOf(name)]),
  );
  registry = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch({ url }) {
      const path = decodeURIComponent(new URL(url).pathname).slice(1);
      const tarball = tarballs.get(path.replace(/\.tgz$/, ''));
      if (!tarball) return new Response('{}', { status: 404 });
      return path.endsWith('.tgz') ? new Response(Bun.file(tarball)) : Response.json(metadataOf(path, url));
    },
  });
});

afterAll(() => registry.stop(true));

/** Packages, and those that they need. */
function withTheirs(names: readonly string[]): Set<string> {
  const all = new Set(names);
  for (const name of all) for (const needed of Object.keys(manifestOf(name)['dependencies'] ?? {})) all.add(needed);
  return all;
}

/** The package as it is here. Bun itself is too large to pack: the one that runs this test is started in its place. */
function tarballOf(name: string): string {
  const place = `${folder}/${name.replace('/', '+')}`;
  mkdirSync(`${place}/package/bin`, { recursive: true });
  if (name === 'bun' || BUN_PACKAGES.includes(name)) {
    const program = name === 'bun' ? 'exit 1' : `exec '${realpathSync(process.execPath)}' "$@"`;
    const file = name === 'bun' ? 'bun.exe' : 'bun';
    writeFileSync(`${place}/package/bin/${file}`, `#!/bin/sh\n${program}\n`, { mode: 0o755 });
    writeFileSync(`${place}/package/package.json`, JSON.stringify(manifestOf(name)));
  } else cpSync(`${MODULES}/${name}`, `${place}/package`, { recursive: true });
  Bun.spawnSync(['tar', '-czf', `${place}.tgz`, 'package'], { cwd: place });
  return `${place}.tgz`;
}

/** What is known of a package without its files. Of the programs of Bun only this machine's are offered. */
function manifestOf(name: string): Record<string, unknown> {
  const own = JSON.parse(readFileSync(`${MODULES}/${name}/package.json`, 'utf8')) as Record<string, unknown>;
  const { bin: _names, scripts: _scripts, optionalDependencies: _programs, ...rest } = own;
  const programs = Object.fromEntries(BUN_PACKAGES.map((one) => [one, String(own['version'])]));
  return name === 'bun' ? { ...rest, optionalDependencies: programs } : rest;
}

function metadataOf(name: string, url: string): unknown {
  const manifest = manifestOf(name);
  const dist = { tarball: new URL(`/${name}.tgz`, url).href };
  const own = String(manifest['version']);
  return { name, 'dist-tags': { latest: own }, versions: { [own]: { ...manifest, dist } } };
}

async function run(words: string[], env: Record<string, string>, cwd: string): Promise<string> {
  const child = Bun.spawn(words, { cwd, env, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (code !== 0) throw new Error(`${words.join(' ')} ended with ${code}\n${out}${err}`);
  return out;
}

it('the packed package is installed by npm into an empty account, and says what to type next', async () => {
  const home = `${folder}/you`;
  const prefix = `${folder}/prefix`;
  for (const path of [home, prefix]) mkdirSync(path);
  const npm = {
    HOME: home,
    PATH: SYSTEM,
    npm_config_prefix: prefix,
    npm_config_cache: `${folder}/cache`,
    npm_config_registry: registry.url.href,
    npm_config_update_notifier: 'false',
    npm_config_audit: 'false',
  };
  await run([NPM, 'pack', '--ignore-scripts', '--pack-destination', home], npm, ROOT);
  await run([NPM, 'install', '-g', `./parley-mail-${version}.tgz`], npm, home);

  const you = { HOME: home, PATH: `${prefix}/bin:${SYSTEM}` };
  const [, shown = ''] = /^\$ parley\n([\s\S]*?)^```/m.exec(readFileSync(`${ROOT}README.md`, 'utf8')) ?? [];
  expect(shown).toContain('  parley run claude ');
  expect(await run(['parley'], you, home)).toBe(shown);
  expect(await run(['parley', 'init', 'me'], you, home)).toContain('made mailbox @me');
  expect(await run(['parley', 'send', '@me', 'hello'], you, home)).toStartWith('stored ');
  expect(await run(['parley', 'drain'], you, home)).toContain('hello');
  expect(existsSync(`${home}/.parley/ledger.db`)).toBe(true);
}, 60_000);
