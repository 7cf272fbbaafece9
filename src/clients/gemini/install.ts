import { join } from 'node:path';
import { fileWishes, hookWishes, serverWish, variables } from '../install-client.ts';
import type { InstallClient } from '../install-client.ts';

/** Gemini CLI: hooks and servers in one file of settings, the user's or the project's. We never write that a server is trusted. */
export const geminiInstall: InstallClient = {
  name: 'gemini',
  title: 'Gemini CLI',
  binaries: ['gemini'],
  folders: ({ home }) => [join(home, '.gemini')],
  servers: ({ home, project }, forProject) => [join(forProject ? project : home, '.gemini/settings.json')],
  wishes(place, gift) {
    const { command, args, env } = gift.server;
    const [servers = ''] = this.servers(place, gift.forProject);
    return [
      ...fileWishes(this.name, gift),
      ...hookWishes(this.name, gift, join(place.home, '.gemini/settings.json')),
      serverWish(this.name, gift.by, servers, ['mcpServers', gift.by], {
        command,
        args: [...args],
        ...variables('env', env),
      }),
    ];
  },
  advice: () => [
    'Gemini CLI asks before it calls a tool of the server for the first time; that answer is yours to give',
  ],
};
