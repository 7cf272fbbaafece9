import { join, resolve } from 'node:path';
import { fileWishes, hookWishes } from '../install-client.ts';
import type { InstallClient, Place, Server } from '../install-client.ts';
import { inToml } from '../settings/text-block.ts';

/** Codex: servers in TOML, for all projects at once; hooks in a file of their own, which Codex runs only when the user trusts them. */
export const codexInstall: InstallClient = {
  name: 'codex',
  title: 'Codex',
  binaries: ['codex'],
  folders: (place) => [codexFolder(place)],
  servers: (place) => [join(codexFolder(place), 'config.toml')],
  wishes(place, gift) {
    const at = ['mcp_servers', gift.by];
    const [path = ''] = this.servers(place, gift.forProject);
    return [
      ...fileWishes(this.name, gift),
      ...hookWishes(this.name, gift, join(codexFolder(place), 'hooks.json')),
      {
        by: gift.by,
        path,
        owner: this.name,
        what: 'MCP server',
        content: { format: 'toml', at, block: blockOf(at.join('.'), gift.server) },
        isThere: (text) => inToml(text, at) !== undefined,
      },
    ];
  },
  advice: (place, gift) => [
    gift.hooks.length > 0
      ? 'Codex asks at its next start whether these hooks may run, and runs none before you said so; `codex exec` skips them in silence'
      : `Hooks were not added${gift.by === 'c2c' ? ': Codex asks you to trust each one. To add them, and then be asked: --hooks' : '; mail waits until its model asks for it'}`,
    ...(gift.forProject ? [`Codex has no settings of a project for this: it is in ${codexFolder(place)}`] : []),
  ],
};

function codexFolder({ home, env }: Place): string {
  return env['CODEX_HOME'] ? resolve(env['CODEX_HOME']) : join(home, '.codex');
}

/** A JSON string without control characters is a TOML string. */
function blockOf(table: string, { command, args, env }: Server): string {
  const words = args.map((word) => JSON.stringify(word)).join(', ');
  const variables = Object.entries(env).map(([name, value]) => `${name} = ${JSON.stringify(value)}\n`);
  const first = `[${table}]\ncommand = ${JSON.stringify(command)}\nargs = [${words}]\n`;
  return variables.length === 0 ? first : `${first}\n[${table}.env]\n${variables.join('')}`;
}
