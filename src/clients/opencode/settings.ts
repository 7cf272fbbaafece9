import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { hasMember, readJson } from '../settings/jsonc.ts';
import { member, tableIn, variables } from '../settings/client-settings.ts';
import type { ClientSettings, InstallTarget } from '../settings/client-settings.ts';
import { packageFiles, parleyPluginText } from './plugin.ts';

/** OpenCode has servers in `opencode.json` of the user or the project, and plugins as files in its settings folder. It runs no hooks. */
export const opencodeSettings: ClientSettings = {
  name: 'opencode',
  title: 'OpenCode',
  binaries: ['opencode'],
  folders: (target) => [opencodeFolder(target)],
  serverFiles: (target, forProject) => [
    settingsFile(forProject ? join(target.project, '.opencode') : opencodeFolder(target)),
  ],
  server: (name, { command, args, env }) =>
    member(['mcp', name], {
      type: 'local',
      command: [command, ...args],
      ...variables('environment', env),
      enabled: true,
    }),
  hooks: () => [],
  allowRule(target, tool) {
    const key = `parley_${tool}`;
    return {
      path: settingsFile(opencodeFolder(target)),
      content: member(['permission', key], 'allow'),
      isThere: (text) => tableIn(tableIn(readJson(text))['permission'])[key] === 'allow',
    };
  },
  // OpenCode asks for permission only if its settings say so.
  mayAsk: (text) => text !== null && hasMember(text, ['permission']),
  skills: (target) => join(opencodeFolder(target), 'skills'),
  mailFiles(target) {
    const folder = opencodeFolder(target);
    const { PARLEY_HOME: home } = target.env;
    const text = parleyPluginText(home ? resolve(home) : undefined);
    return [{ path: join(folder, 'plugins/parley.ts'), what: 'plugin', text }, ...packageFiles(folder)];
  },
  advice: (_target, profile) =>
    profile.files.some(({ path }) => path.endsWith('/plugins/c2c.ts'))
      ? [
          'The first start of OpenCode with a plugin takes about half a minute, because it fetches its package for plugins; without ' +
            'a network it tries for well over a minute and then starts anyway',
        ]
      : [],
};

export function opencodeFolder({ home, env }: Pick<InstallTarget, 'home' | 'env'>): string {
  const { OPENCODE_CONFIG_DIR: named, XDG_CONFIG_HOME: config } = env;
  if (named) return resolve(named);
  return join(config?.startsWith('/') ? config : join(home, '.config'), 'opencode');
}

/** The user's settings file. OpenCode reads both names, so Parley adds no second file beside the user's. */
function settingsFile(folder: string): string {
  const [plain, commented] = [join(folder, 'opencode.json'), join(folder, 'opencode.jsonc')];
  return existsSync(commented) && !existsSync(plain) ? commented : plain;
}
