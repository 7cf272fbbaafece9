import type { ClientSettings } from '../../clients/settings-client.ts';
import { SETTINGS_CLIENTS } from '../../clients/settings-clients.ts';
import type { Addition } from '../../clients/settings/changes.ts';
import { find } from '../../clients/settings/file.ts';
import { userHome } from '../env.ts';
import type { Env } from '../env.ts';
import { hookLine } from '../hook-setup.ts';
import { possibleAdditions } from '../install/parley-profile.ts';
import { gitTop } from '../origin.ts';
import { on } from './finding.ts';
import type { Finding } from './finding.ts';

/** Hook lines and servers of an older Parley: they work, but can name a mailbox, and the hook line blocks its client once Parley is gone. */
export function examineOlderLines(env: Env, cwd: string): Finding[] {
  const target = { home: userHome(env), env, project: gitTop(cwd) ?? cwd };
  return SETTINGS_CLIENTS.flatMap((client) => {
    const lines = possibleAdditions(client, target).filter(({ what }) => /^(hook|MCP server)/.test(what));
    const paths = [...new Set(lines.filter((line) => isOlder(env, client, line)).map(({ path }) => path))];
    if (paths.length === 0) return [];
    const trust = client.name === 'codex' ? '; Codex then asks you to trust the new hook' : '';
    return [
      on(client.name).warn(
        `${client.title} has a line of an older Parley in ${paths.join(' and ')}`,
        `\`parley install ${client.name}\` replaces what it wrote; change by hand what you wrote${trust}`,
      ),
    ];
  });
}

function isOlder(env: Env, { name }: ClientSettings, { path, what, isThere }: Addition): boolean {
  try {
    const { text } = find(path);
    if (text === null || !isThere(text)) return false;
    const line = JSON.stringify(hookLine(env, name)).slice(1, -1);
    return what === 'MCP server' ? !/"--client"\s*,\s*"/.test(text) && /"--as"/.test(text) : !text.includes(line);
  } catch {
    // What cannot be read is reported where the settings are looked at.
    return false;
  }
}
