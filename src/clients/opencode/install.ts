import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileWishes, serverWish, variables } from '../install-client.ts';
import type { InstallClient, Place } from '../install-client.ts';

/** OpenCode: servers in `opencode.json` of the user or the project. It runs no hooks; a plugin is a file in its place. */
export const opencodeInstall: InstallClient = {
  name: 'opencode',
  title: 'OpenCode',
  binaries: ['opencode'],
  folders: (place) => [opencodeFolder(place)],
  servers: (place, forProject) => [settingsIn(forProject ? join(place.project, '.opencode') : opencodeFolder(place))],
  wishes(place, gift) {
    const { command, args, env } = gift.server;
    const value = { type: 'local', command: [command, ...args], ...variables('environment', env), enabled: true };
    const [servers = ''] = this.servers(place, gift.forProject);
    return [...fileWishes(this.name, gift), serverWish(this.name, gift.by, servers, ['mcp', gift.by], value)];
  },
  advice: (_place, gift) =>
    gift.files.some(({ path }) => path.endsWith('/plugins/c2c.ts'))
      ? [
          'The first start of OpenCode with a plugin takes about half a minute, because it fetches its package for plugins; without ' +
            'the network it tries for well over a minute and then starts all the same',
        ]
      : [],
};

export function opencodeFolder({ home, env }: Place): string {
  const { OPENCODE_CONFIG_DIR: named, XDG_CONFIG_HOME: config } = env;
  if (named) return resolve(named);
  return join(config?.startsWith('/') ? config : join(home, '.config'), 'opencode');
}

/** Both names are read. A second file beside the user's own would only hide where things are. */
function settingsIn(folder: string): string {
  const [plain, commented] = [join(folder, 'opencode.json'), join(folder, 'opencode.jsonc')];
  return existsSync(commented) && !existsSync(plain) ? commented : plain;
}
