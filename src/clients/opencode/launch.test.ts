import { describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { AgentName } from '../../core/names.ts';
import { opencodeLauncher } from './launch.ts';

describe('`parley run opencode`', () => {
  it.each([
    [['-s', 'ses_1'], 'ses_1'],
    [['--session=ses_1', '--port', '0'], 'ses_1'],
    [['--continue'], undefined],
  ])('finds in %j that %p is continued', (args, session) => {
    expect(opencodeLauncher.sessionIn(args)).toBe(session);
  });

  it.each([
    [['../api', '-c'], '../api'],
    [['run', 'go'], undefined],
    [['-c'], undefined],
    [[], undefined],
  ])('finds in %j the folder %p', (args, folder) => {
    expect(opencodeLauncher.folderIn?.(args)).toBe(folder);
  });

  it.each([[[]], [['serve']]])(
    'gives %j our plugin beside those of the user, and the process that has its name',
    async (args) => {
      const { env, canBeWoken } = await prepared(args, { OPENCODE_CONFIG_CONTENT: '{"plugin":["theirs"]}' });
      const { plugin } = JSON.parse(env['OPENCODE_CONFIG_CONTENT'] ?? '') as { plugin: string[] };
      expect([plugin[0], plugin.length, existsSync(plugin[1] ?? '')]).toEqual(['theirs', 2, true]);
      expect([canBeWoken, env['PARLEY_RUN_PID'], env['PARLEY_AGENT']]).toEqual([true, String(process.pid), 'me']);
    },
  );

  it.each([
    [['--pure'], {}],
    [['run', 'go', '--pure'], {}],
    [[], { OPENCODE_PURE: '1' }],
  ])('cannot wake %j with %j', async (args, more) => {
    const { canBeWoken, env } = await prepared(args, more);
    expect([canBeWoken, env['OPENCODE_CONFIG_CONTENT']?.includes('plugin')]).toEqual([false, false]);
  });

  it('says that a first start with a plugin is slow, where it is', async () => {
    expect((await prepared([])).notes).toHaveLength(1);
    expect((await prepared([], {}, '.config/opencode/node_modules')).notes).toEqual([]);
  });
});

function prepared(args: string[], more: Record<string, string> = {}, folder = '.') {
  const HOME = temporaryHome();
  mkdirSync(`${HOME}/${folder}`, { recursive: true });
  const server = { command: 'parley', args: ['mcp'], env: {} };
  const order = { program: 'opencode', args, name: AgentName.parse('me'), folder: HOME, server, hookLine: '' };
  return opencodeLauncher.prepare({ ...order, inbound: false, env: { HOME, ...more } });
}
