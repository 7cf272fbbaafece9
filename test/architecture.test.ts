import { Glob } from 'bun';
import { describe, expect, it } from 'bun:test';
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

/** Who may import whom: the table of ARCHITECTURE.md. `ports` are the files named like their folder, and what a failing disk says. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  protocol: ['protocol'],
  attention: ['protocol', 'attention'],
  storage: ['protocol', 'storage'],
  sessions: ['protocol', 'sessions'],
  delivery: ['protocol', 'attention', 'storage ports', 'flow', 'sessions', 'delivery'],
  clients: ['protocol', 'sessions', 'delivery', 'clients'],
  flow: ['protocol', 'attention', 'storage ports', 'delivery ports', 'flow'],
  doors: ['protocol', 'sessions', 'delivery', 'storage ports', 'flow', 'doors'],
  cli: ['protocol', 'attention', 'storage', 'sessions', 'delivery', 'clients', 'flow', 'doors', 'cli'],
};

/** The only places that may name a backend. */
const NAMES_BACKENDS = /^src\/(storage\/|cli\/wiring(-\w+)?\.ts$)/;
const PORTS =
  /^src\/storage\/(disk|holder|spool\/spool|ledger\/(ledger|duties)|directory\/directory|rooms\/rooms|relay\/relay|c2c\/broker)\.ts$/;
const BACKENDS =
  /^src\/storage\/(spool\/(maildir|memory|c2c-broker)|ledger\/(sqlite|memory)|directory\/(files|memory|watched|c2c-registry)|rooms\/files|c2c\/files)/;

const files = [...new Glob('src/**/*.ts').scanSync()].filter((path) => !/\.(test|contract)\.ts$/.test(path));
const imports = files.flatMap((path) =>
  [...readFileSync(path, 'utf8').matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)].map(([, target = '']) => ({
    path,
    target: normalize(join(dirname(path), target)),
  })),
);

describe('the rooms', () => {
  it('were read at all', () => {
    expect(files.length).toBeGreaterThan(40);
    expect(imports.length).toBeGreaterThan(100);
  });

  it('import only what the table allows', () => {
    const forbidden = imports.filter(({ path, target }) => !isAllowed(path, target));
    expect(forbidden).toEqual([]);
  });

  it('name a backend in one file only', () => {
    const named = imports.filter(({ path, target }) => BACKENDS.test(target) && !NAMES_BACKENDS.test(path));
    expect(named).toEqual([]);
  });

  it('have no drawer for odds and ends', () => {
    expect(files.filter((path) => /(utils?|helpers?|common|core|manager|index)\.ts$/.test(path))).toEqual([]);
  });

  it('keep what a relay needs out of a plain send', () => {
    const started = ['src/cli/main.ts', 'src/cli/parley.ts', 'src/cli/commands/send.ts'];
    for (const path of started) {
      for (const target of readAtStart(path)) if (!started.includes(target)) started.push(target);
    }
    expect(started).toContain('src/flow/send.ts');
    expect(started.filter((path) => /relay|far-home|enlist|tokens/.test(path))).toEqual([]);
  });
});

/** What a file reads as soon as it is read itself: types are not. */
function readAtStart(path: string): string[] {
  const found = readFileSync(path, 'utf8').matchAll(/^(?:import|export) (?!type\b)[^;]*?from '(\.[^']+\.ts)'/gm);
  return [...found].map(([, target = '']) => normalize(join(dirname(path), target)));
}

function isAllowed(path: string, target: string): boolean {
  const allowed = MAY_IMPORT[roomOf(path)] ?? [];
  const room = roomOf(target);
  // What a client runs is carried along as text, never called.
  if (target.startsWith('plugins/')) return path === 'src/cli/install/plugin-text.ts';
  if (target === 'SKILL.md') return path === 'src/cli/install/skill.ts';
  if (room === 'json') return roomOf(path) === 'cli';
  if (room === 'storage' && allowed.includes('storage ports')) return PORTS.test(target);
  if (room === 'delivery' && allowed.includes('delivery ports')) return target === 'src/delivery/way.ts';
  return allowed.includes(room);
}

function roomOf(path: string): string {
  return path.endsWith('.json') ? 'json' : (path.split('/')[1] ?? '');
}
