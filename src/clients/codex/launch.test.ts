import { describe, expect, it } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import type { AgentName } from '../../core/names.ts';
import { codexLauncher, isFolderTrusted } from './launch.ts';

describe('parley run codex', () => {
  it.each([
    [['resume'], 'its model has the tools'],
    [['resume', '--last'], 'its model has the tools'],
    [['fork'], 'its model has the tools'],
    [['--search'], 'with --search, '],
    [['--add-dir', '/tmp'], 'with --add-dir, '],
    [['--remote=unix:///s'], 'with --remote, '],
    [[], 'Codex did not start its daemon'],
  ])('promises mail only with the next prompt where Codex runs unchanged: %j', async (args, note) => {
    const launch = await launched(args);
    expect(launch).toMatchObject({ added: [], canBeWoken: false });
    expect(launch.session).toBeUndefined();
    expect(launch.otherwise).toStartWith('mail comes with your next prompt');
    expect(launch.notes.join()).toContain(note);
  });
});

it('`parley run codex` knows whether the user trusts the folder or a parent of it', () => {
  const home = temporaryHome();
  const isTrustedIn = (folder: string): boolean => isFolderTrusted({ env: { HOME: home }, folder });
  expect(isTrustedIn('/src/api')).toBe(false);
  mkdirSync(`${home}/.codex`);
  const write = (text: string): void => writeFileSync(`${home}/.codex/config.toml`, text);
  write('[projects."/src"]\ntrust_level = "trusted"\n[projects."/other"]\ntrust_level = "untrusted"\n');
  expect(['/src', '/src/api', '/srcs', '/other'].map(isTrustedIn)).toEqual([true, true, false, false]);
  write('sandbox_mode = "read-only"\n');
  expect(isTrustedIn('/src/api')).toBe(true);
});

/** Launches with a Codex that cannot start its daemon. */
function launched(args: string[]): ReturnType<typeof codexLauncher.prepare> {
  const folder = temporaryHome();
  return codexLauncher.prepare({
    program: '/bin/false',
    args,
    name: 'codex.api' as AgentName,
    folder,
    env: { HOME: folder },
    server: { command: 'parley', args: ['mcp'], env: {} },
    hookLine: 'parley hook codex',
  });
}
