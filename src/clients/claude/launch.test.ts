import { mkdirSync } from 'node:fs';
import { expect, it } from 'bun:test';
import { temporaryHome } from '../../../test/support/home.ts';
import { claudeLauncher } from './launch.ts';

it('`parley run claude` lets Claude Code itself report unreadable settings', () => {
  const folder = temporaryHome();
  mkdirSync(`${folder}/.claude/settings.json`, { recursive: true });
  expect(claudeLauncher.holdsMessages?.(['--dangerously-skip-permissions'], { env: { HOME: folder }, folder })).toBe(
    false,
  );
});
