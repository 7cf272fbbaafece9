import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { inToml } from '../settings/toml.ts';
import { isMarked, member, tableIn, variables } from '../settings/client-settings.ts';
import type { ClientSettings, InstallTarget } from '../settings/client-settings.ts';

/** Kimi: the older program uses `~/.kimi`, the newer one `~/.kimi-code`. Only the newer one runs hooks. Settings go to each that exists here. */
export const kimiSettings: ClientSettings = {
  name: 'kimi',
  title: 'Kimi',
  binaries: ['kimi'],
  folders(target) {
    const [older, newer] = [join(target.home, '.kimi'), newerFolder(target)];
    return existsSync(older) ? [older, ...(existsSync(newer) ? [newer] : [])] : [newer];
  },
  serverFiles(target) {
    return this.folders(target).map((folder) => join(folder, 'mcp.json'));
  },
  server: (name, { command, args, env }) =>
    member(['mcpServers', name], { command, args: [...args], ...variables('env', env) }),
  /** Kimi keeps the hooks of all events in one TOML list. */
  hooks(target, { what, command, events, mark, timeout = 10 }) {
    if (!this.folders(target).includes(newerFolder(target))) return [];
    const entry = (event: string): string =>
      `[[hooks]]\nevent = ${JSON.stringify(event)}\ncommand = ${JSON.stringify(command(event))}\ntimeout = ${timeout}\n`;
    return [
      {
        path: join(newerFolder(target), 'config.toml'),
        what,
        content: { format: 'toml', at: ['hooks'], append: true, block: events.map(entry).join('\n') },
        isThere: (text) =>
          [inToml(text, ['hooks'])].flat().some((hook) => isMarked(String(tableIn(hook)['command']), mark)),
      },
    ];
  },
  // Kimi 2.1 reads [[permission.rules]], but still asks its user.
  allowRule: null,
  // Not tested with the older program.
  skills(target) {
    return this.folders(target).includes(newerFolder(target)) ? join(newerFolder(target), 'skills') : null;
  },
  advice(target, profile) {
    const folders = this.folders(target);
    return [
      folders.includes(newerFolder(target))
        ? 'Kimi 2 shows mail when you write to it and at the end of a turn; an idle one is woken if `parley run kimi` started it'
        : 'The older Kimi runs no hooks: it sees mail when its model asks for it, or by `c2c wire-daemon`',
      ...(profile.forProject ? [`Kimi has no settings of a project for this: it is in ${folders.join(' and ')}`] : []),
    ];
  },
};

function newerFolder({ home, env }: InstallTarget): string {
  return env['KIMI_CODE_HOME'] ? resolve(env['KIMI_CODE_HOME']) : join(home, '.kimi-code');
}
