import { Glob } from 'bun';
import { describe, expect, it } from 'bun:test';
import { readFileSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';

/** The import rule of ARCHITECTURE.md. A folder imports from the rows above its own, and from itself. */
const LAYERS = [
  ['core'],
  ['platform'],
  ['store', 'wire', 'sessions'],
  ['delivery'],
  ['clients'],
  ['protocols'],
  ['bridges'],
  ['daemon'],
  ['cli'],
] as const;

/** Text that is carried along and never called. */
const CARRIED: Record<string, RegExp> = {
  'plugins/opencode/c2c.ts': /^src\/protocols\/c2c\//,
  'plugins/opencode/parley.ts': /^src\/clients\/opencode\//,
  'SKILL.md': /^src\/(clients|cli)\//,
  'package.json': /^src\//,
};

/** The only files that name a backend, outside of store/ and of the protocol that owns it. */
const NAMES_BACKENDS = /^src\/(store|daemon)\//;

const NOT_FOR_A_SEND =
  /backchannel\/(relay|rooms|remote-(home|http|events|mailboxes|directory)|outbox|post|inbox-cache)|exporter|exported-|export-(job|worker|messages)|wire\/|clients\/settings\/|installer/;

const files = [...new Glob('src/**/*.ts').scanSync()].filter((path) => !/\.(test|contract)\.ts$/.test(path));
const imports = files.flatMap((path) => importsIn(path, readFileSync(path, 'utf8')));

describe('the source tree', () => {
  it('has only the folders of the design', () => {
    const folders = new Set(files.map((path) => path.split('/')[1] ?? ''));
    expect([...folders].filter((folder) => layerOf(folder) === -1)).toEqual([]);
    expect(imports.length).toBeGreaterThan(500);
  });

  it('imports one way only', () => {
    expect(imports.filter((one) => !isAllowed(one)).map(({ path, target }) => `${path} imports ${target}`)).toEqual([]);
  });

  it.each([
    ['import', `import { writeAll } from '../platform/terminal.ts';`],
    ['import type', `import type { Paint } from '../platform/terminal.ts';`],
    ['export from', `export { Paint } from '../platform/terminal.ts';`],
    ['import()', `const { writeAll } = await import('../platform/terminal.ts');`],
    ['import() in a type', `type Terminal = typeof import('../platform/terminal.ts');`],
    ['require', `const { writeAll } = require('../platform/terminal.ts') as typeof Terminal;`],
    ['a lone import', `import '../platform/terminal.ts';`],
    ['an import over several lines', `import {\n  writeAll,\n} from\n  '../platform/terminal.ts';`],
  ])('sees a breach by %s', (_how, text) => {
    const planted = importsIn('src/core/planted.ts', text);
    expect(planted.map(isAllowed)).toEqual([false]);
  });

  it.each([
    ['a left folder from a right one', 'src/store/x.ts', 'src/cli/main.ts', false],
    ['neighbours in one layer', 'src/store/x.ts', 'src/wire/jsonrpc.ts', false],
    ['platform from core', 'src/core/x.ts', 'src/platform/lock.ts', false],
    ['one protocol from another', 'src/protocols/c2c/x.ts', 'src/protocols/backchannel/x.ts', false],
    ['a folder that nobody knows', 'src/core/x.ts', 'src/misc/x.ts', false],
    ['a right folder from a left one', 'src/cli/x.ts', 'src/core/message.ts', true],
    ['its own folder', 'src/protocols/c2c/x.ts', 'src/protocols/c2c/lock.ts', true],
  ])('judges %s', (_what, path, target, allowed) => {
    expect(isAllowed({ path, target })).toBe(allowed);
  });

  it('names a backend in one place', () => {
    const named = imports.filter(({ path, target }) => target.startsWith('src/store/') && !NAMES_BACKENDS.test(path));
    const allowed = /^src\/protocols\/(c2c|backchannel)\//;
    expect(named.filter(({ path }) => !allowed.test(path)).map(({ path, target }) => `${path}: ${target}`)).toEqual([]);
  });

  it('keeps what only a relay or an installer needs out of a plain send', () => {
    const started = ['src/cli/main.ts', 'src/cli/parley.ts', 'src/cli/commands/mail.ts'];
    for (const path of started)
      for (const { target } of valueImportsIn(path)) if (!started.includes(target)) started.push(target);
    expect(started).toContain('src/core/mail/send.ts');
    expect(started.filter((path) => NOT_FOR_A_SEND.test(path))).toEqual([]);
  });

  it('has no file for odds and ends', () => {
    expect(files.filter((path) => /\/(utils?|helpers?|common|manager|index)\.ts$/.test(path))).toEqual([]);
  });

  it('gives an exported name one meaning', () => {
    const owners = new Map<string, Set<string>>();
    for (const path of files) {
      for (const name of exportsOf(readFileSync(path, 'utf8')))
        owners.set(name, (owners.get(name) ?? new Set()).add(path));
    }
    // Each file with commands has them under this name, for the table that loads them.
    owners.delete('commands');
    expect(owners.size).toBeGreaterThan(1000);
    const shared = [...owners].filter(([, paths]) => paths.size > 1);
    expect(shared.map(([name, paths]) => `${name}: ${[...paths].join(', ')}`)).toEqual([]);
  });

  it('names a test file for the module beside it', () => {
    const tests = [...new Glob('src/**/*.test.ts').scanSync()];
    const modules = new Set(
      [...new Glob('src/**/*.ts').scanSync()].map((path) => path.replace(/(\.contract)?\.ts$/, '')),
    );
    const module = (path: string): string => join(dirname(path), basename(path).split('.')[0] ?? '');
    expect(tests.filter((path) => !modules.has(module(path)))).toEqual([]);
  });

  it('gives a reason for every file above 500 lines', () => {
    const long = files.filter((path) => {
      const lines = readFileSync(path, 'utf8').split('\n');
      return lines.length > 501 && !/^\/\/ .*long/i.test(lines[0] ?? '');
    });
    expect(long).toEqual([]);
  });
});

interface Import {
  path: string;
  target: string;
}

function importsIn(path: string, text: string): Import[] {
  const found = text.matchAll(/(?:\bfrom\s*|\bimport\s*\(\s*|\brequire\s*\(\s*|^import\s+)['"](\.[^'"]+)['"]/gm);
  return [...found].map(([, target = '']) => ({ path, target: normalize(join(dirname(path), target)) }));
}

/** What a file loads as soon as it is loaded itself: types and `import()` are not. */
function valueImportsIn(path: string): Import[] {
  const text = readFileSync(path, 'utf8');
  const found = text.matchAll(/^(?:import|export) (?!type\b)[^;]*?from '(\.[^']+\.ts)'/gm);
  return [...found].map(([, target = '']) => ({ path, target: normalize(join(dirname(path), target)) }));
}

function exportsOf(text: string): string[] {
  const kinds = 'const|let|function|class|interface|type|enum';
  const found = text.matchAll(new RegExp(`^export (?:declare |abstract |async )*(?:${kinds})\\*? ([\\w$]+)`, 'gm'));
  return [...found].map(([, name = '']) => name);
}

function isAllowed({ path, target }: Import): boolean {
  const carried = CARRIED[target];
  if (carried) return carried.test(path);
  const [from = '', to = ''] = [path, target].map((one) => one.split('/')[1]);
  if (from === 'protocols' && to === 'protocols') return path.split('/')[2] === target.split('/')[2];
  if (from === to) return layerOf(from) !== -1;
  return layerOf(to) !== -1 && layerOf(to) < layerOf(from);
}

function layerOf(folder: string): number {
  return LAYERS.findIndex((layer) => (layer as readonly string[]).includes(folder));
}
