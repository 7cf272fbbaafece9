import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileWishes, isMarked, serverWish, tableIn, variables } from '../install-client.ts';
import type { Gift, InstallClient, Place } from '../install-client.ts';
import type { Wish } from '../settings/apply.ts';
import { inToml } from '../settings/text-block.ts';

/** Kimi: the older program has `~/.kimi`, the newer one `~/.kimi-code`; only that one runs hooks. Whichever is here is served. */
export const kimiInstall: InstallClient = {
  name: 'kimi',
  title: 'Kimi',
  binaries: ['kimi'],
  folders(place) {
    const [older, newer] = [join(place.home, '.kimi'), newerFolder(place)];
    return existsSync(older) ? [older, ...(existsSync(newer) ? [newer] : [])] : [newer];
  },
  servers(place) {
    return this.folders(place).map((folder) => join(folder, 'mcp.json'));
  },
  wishes(place, gift) {
    const { command, args, env } = gift.server;
    const value = { command, args: [...args], ...variables('env', env) };
    const isNewer = this.folders(place).includes(newerFolder(place));
    return [
      ...fileWishes(this.name, gift),
      ...(isNewer ? hookWishes(this.name, gift, join(newerFolder(place), 'config.toml')) : []),
      ...this.servers(place, gift.forProject).map((path) =>
        serverWish(this.name, gift.by, path, ['mcpServers', gift.by], value),
      ),
    ];
  },
  advice(place, gift) {
    const folders = this.folders(place);
    return [
      ...(folders.includes(newerFolder(place))
        ? [
            'Kimi 2 shows mail when you write to it and at the end of a turn; while it is idle nothing wakes it from inside',
          ]
        : ['The older Kimi runs no hooks: it sees mail when its model asks for it, or by `c2c wire-daemon`']),
      ...(gift.forProject ? [`Kimi has no settings of a project for this: it is in ${folders.join(' and ')}`] : []),
    ];
  },
};

function newerFolder({ home, env }: Place): string {
  return env['KIMI_CODE_HOME'] ? resolve(env['KIMI_CODE_HOME']) : join(home, '.kimi-code');
}

/** Its hooks are one list in TOML, of all events. */
function hookWishes(owner: string, { by, hooks }: Gift, path: string): Wish[] {
  return hooks.map(({ what, command, events, mark, timeout = 10 }) => {
    const entry = (event: string): string =>
      `[[hooks]]\nevent = ${JSON.stringify(event)}\ncommand = ${JSON.stringify(command(event))}\ntimeout = ${timeout}\n`;
    return {
      by,
      path,
      owner,
      what,
      content: { format: 'toml', at: ['hooks'], append: true, block: events.map(entry).join('\n') },
      isThere: (text) =>
        [inToml(text, ['hooks'])].flat().some((hook) => isMarked(String(tableIn(hook)['command']), mark)),
    };
  });
}
