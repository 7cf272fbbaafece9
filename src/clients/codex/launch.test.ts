import { describe, expect, it } from 'bun:test';
import { temporaryHome } from '../../../test/support/home.ts';
import type { AgentName } from '../../core/names.ts';
import { codexLauncher } from './launch.ts';

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

/** With a Codex that cannot start its daemon. */
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
