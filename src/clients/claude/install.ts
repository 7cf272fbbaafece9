import { join, resolve } from 'node:path';
import { fileWishes, hookWishes, serverWish, variables } from '../install-client.ts';
import type { InstallClient, Place } from '../install-client.ts';

/** Claude Code: hooks in the user's settings; servers of a project in its `.mcp.json`, those of the user in `.claude.json`. */
export const claudeInstall: InstallClient = {
  name: 'claude',
  title: 'Claude Code',
  binaries: ['claude'],
  folders: (place) => [claudeFolder(place)],
  servers: (place, forProject) => [
    forProject
      ? join(place.project, '.mcp.json')
      : join(place.env['CLAUDE_CONFIG_DIR'] ? claudeFolder(place) : place.home, '.claude.json'),
  ],
  wishes(place, gift) {
    const { command, args, env } = gift.server;
    const [servers = ''] = this.servers(place, gift.forProject);
    return [
      ...fileWishes(this.name, gift),
      ...hookWishes(this.name, gift, claudeSettings(place)),
      serverWish(this.name, gift.by, servers, ['mcpServers', gift.by], {
        type: 'stdio',
        command,
        args: [...args],
        ...variables('env', env),
      }),
    ];
  },
  advice: (_place, gift) => [
    ...(gift.forProject
      ? ['Claude Code asks once whether it may start the server of a project; that answer is yours to give']
      : []),
    gift.by === 'c2c'
      ? 'An idle session is reached by nothing that was installed here; `c2c start claude` runs one in tmux and wakes it'
      : 'An idle session is reached by nothing that was installed here: its mail waits for your next prompt',
  ],
};

export function claudeFolder({ home, env }: Place): string {
  return env['CLAUDE_CONFIG_DIR'] ? resolve(env['CLAUDE_CONFIG_DIR']) : join(home, '.claude');
}

export function claudeSettings(place: Place): string {
  return join(claudeFolder(place), 'settings.json');
}
