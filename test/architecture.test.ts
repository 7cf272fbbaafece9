import { Glob } from 'bun';
import { describe, expect, it } from 'bun:test';
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

/**
 * Who may import whom: the table of ARCHITECTURE.md. `types` allows `import type` only. `ports` are the files named like their folder, and
 * what a failing disk says; `machine` is what knows this machine and belongs to platform.
 */
const MAY_IMPORT: Record<string, readonly string[]> = {
  protocol: ['protocol'],
  wire: ['protocol', 'wire'],
  attention: ['protocol', 'attention'],
  platform: ['protocol', 'platform', 'core types', 'storage machine', 'plain text'],
  core: ['protocol', 'core', 'platform types', 'flow types', 'storage ports'],
  storage: ['protocol', 'storage'],
  sessions: ['protocol', 'platform', 'sessions'],
  delivery: ['protocol', 'attention', 'platform', 'core', 'flow', 'sessions', 'delivery', 'storage ports'],
  clients: ['protocol', 'sessions', 'delivery', 'clients'],
  flow: ['protocol', 'attention', 'storage ports', 'delivery ports', 'flow'],
  doors: ['protocol', 'sessions', 'delivery', 'storage ports', 'flow', 'doors'],
  protocols: [
    'protocol',
    'platform',
    'core',
    'sessions',
    'delivery',
    'clients',
    'flow',
    'doors',
    'storage ports',
    'storage machine',
    'protocols',
  ],
  daemon: ['protocol', 'platform', 'core', 'storage', 'sessions', 'delivery', 'flow', 'doors', 'protocols', 'daemon'],
  cli: [
    'protocol',
    'attention',
    'platform',
    'core',
    'storage',
    'sessions',
    'delivery',
    'clients',
    'flow',
    'doors',
    'protocols',
    'daemon',
    'cli',
  ],
};

/** What still stands in cli/ and moves with its own rewrite: the set-up of clients, the hook's sessions, the host. */
const NOT_MOVED_YET = /^src\/cli\/(dialects\/(bch\/set-up|c2c\/hook-session)|host\/(options|door))\.ts$/;

/** The only places that may name a backend. */
const NAMES_BACKENDS = /^src\/(storage\/|daemon\/homes\.ts$)/;
const PORTS =
  /^src\/storage\/(disk|spool\/spool|ledger\/(ledger|duties)|directory\/directory|rooms\/rooms|relay\/relay|c2c\/broker)\.ts$/;
/** What touches the machine, and the files of an agent at a relay and of OpenCode, which move to their protocols. */
const MACHINE =
  /^src\/storage\/(disk|libc|holder|lock-file|plain-file|platform\/platform|relay\/(identity|register)|c2c\/state-file)\.ts$/;
const PLAIN_TEXT = /^src\/(attention\/secrets|delivery\/visible)\.ts$/;
const BACKENDS =
  /^src\/storage\/(spool\/(maildir|c2c-broker)|ledger\/sqlite|directory\/(files|watched|c2c-registry)|rooms\/files|c2c\/files)/;

interface Import {
  path: string;
  target: string;
  types: boolean;
}

const files = [...new Glob('src/**/*.ts').scanSync()].filter((path) => !/\.(test|contract)\.ts$/.test(path));
const imports = files.flatMap((path) => importsIn(path, readFileSync(path, 'utf8')));

function importsIn(path: string, text: string): Import[] {
  const found = text.matchAll(/(?:\b(?:import|export) (type )?[^;']*?\bfrom|import\(|require\()\s*'(\.[^']+)'/g);
  return [...found].map(([, types, target = '']) => ({
    path,
    target: normalize(join(dirname(path), target)),
    types: types !== undefined,
  }));
}

describe('the rooms', () => {
  it('were read at all', () => {
    expect(files.length).toBeGreaterThan(40);
    expect(imports.length).toBeGreaterThan(100);
  });

  it('import only what the table allows', () => {
    const forbidden = imports.filter((one) => !isAllowed(one));
    expect(forbidden).toEqual([]);
  });

  it.each([
    ["import { homes } from '../../daemon/homes.ts';", 'src/protocols/c2c/planted.ts'],
    ["import type { Context } from '../cli/context.ts';", 'src/platform/planted.ts'],
    ["const { run } = await import('../core/command.ts');", 'src/platform/planted.ts'],
    ["const { Bch } = require('../backchannel/workspace.ts');", 'src/protocols/c2c/planted.ts'],
  ])('would notice %s in %s', (text, path) => {
    expect(importsIn(path, text).map(isAllowed)).toEqual([false]);
  });

  it('are all in the table', () => {
    expect(files.filter((path) => !(roomOf(path) in MAY_IMPORT))).toEqual([]);
  });

  it('load commands from one table only', () => {
    const loaded = files.filter((path) => /\bimport\('[^']*\/(commands|protocols)\//.test(readFileSync(path, 'utf8')));
    expect(loaded.sort()).toEqual(['src/cli/table.ts', 'src/daemon/services.ts']);
  });

  it('name a backend in one file only', () => {
    const named = imports.filter(({ path, target }) => BACKENDS.test(target) && !NAMES_BACKENDS.test(path));
    expect(named).toEqual([]);
  });

  it('have no drawer for odds and ends', () => {
    expect(files.filter((path) => /(utils?|helpers?|common|core|manager|index)\.ts$/.test(path))).toEqual([]);
  });

  it('keep what a relay needs out of a plain send', () => {
    const started = ['src/cli/main.ts', 'src/cli/parley.ts', 'src/cli/commands/mail.ts'];
    for (const path of started) {
      for (const target of readAtStart(path)) if (!started.includes(target)) started.push(target);
    }
    expect(started).toContain('src/flow/send.ts');
    expect(started.filter((path) => /storage\/relay\/(?!identity)|backchannel\/|doors\/|tokens/.test(path))).toEqual(
      [],
    );
  });
});

/** What a file reads as soon as it is read itself: types are not. */
function readAtStart(path: string): string[] {
  const found = readFileSync(path, 'utf8').matchAll(/^(?:import|export) (?!type\b)[^;]*?from '(\.[^']+\.ts)'/gm);
  return [...found].map(([, target = '']) => normalize(join(dirname(path), target)));
}

function isAllowed({ path, target, types }: Import): boolean {
  const allowed = MAY_IMPORT[roomOf(path)] ?? [];
  const room = roomOf(target);
  // What a client runs is carried along as text, never called.
  if (target.startsWith('plugins/')) return path === 'src/cli/install/plugin-text.ts';
  if (target === 'SKILL.md') return path === 'src/cli/install/skill.ts';
  if (room === 'json') return roomOf(path) === 'platform' || roomOf(path) === 'cli';
  if (room === 'protocols' && roomOf(path) === 'protocols') return protocolOf(path) === protocolOf(target);
  if (NOT_MOVED_YET.test(target) && /^src\/(protocols|daemon)\//.test(path)) return true;
  if (types && allowed.includes(`${room} types`)) return true;
  if (PLAIN_TEXT.test(target) && allowed.includes('plain text')) return true;
  if (PORTS.test(target) && allowed.includes('storage ports')) return true;
  if (MACHINE.test(target) && allowed.includes('storage machine')) return true;
  if (room === 'delivery' && allowed.includes('delivery ports')) return target === 'src/delivery/way.ts';
  return allowed.includes(room);
}

function protocolOf(path: string): string | undefined {
  return path.split('/')[2];
}

function roomOf(path: string): string {
  return path.endsWith('.json') ? 'json' : (path.split('/')[1] ?? '');
}
