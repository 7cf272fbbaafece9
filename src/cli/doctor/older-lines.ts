import type { InstallClient, Place } from '../../clients/install-client.ts';
import { INSTALL_CLIENTS } from '../../clients/install-clients.ts';
import type { Wish } from '../../clients/settings/apply.ts';
import { find } from '../../clients/settings/file.ts';
import { userHome } from '../../platform/env.ts';
import type { Env } from '../../platform/env.ts';
import { gitTop } from '../../platform/git.ts';
import { hookLine } from '../hook-setup.ts';
import { parleyGift } from '../install/parley-gift.ts';
import { on } from './finding.ts';
import type { Finding } from './finding.ts';

/** Hook lines and servers of an older Parley: they work, but can name a mailbox, and the hook line blocks its client once Parley is gone. */
export function examineOlderLines(env: Env, cwd: string): Finding[] {
  const place: Place = { home: userHome(env), env, project: gitTop(cwd) ?? cwd };
  return INSTALL_CLIENTS.flatMap((client) => {
    const paths = [
      ...new Set(
        linesOf(client, place)
          .filter((wish) => isOlder(env, client, wish))
          .map(({ path }) => path),
      ),
    ];
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

function linesOf(client: InstallClient, place: Place): Wish[] {
  const order = { client: client.name, program: '', hooks: true };
  const gifts = [true, false].map((project) => parleyGift(place.env, { ...order, project }));
  return gifts.flatMap((gift) => client.wishes(place, gift)).filter(({ what }) => /^(hook|MCP server)/.test(what));
}

function isOlder(env: Env, { name }: InstallClient, { path, what, isThere }: Wish): boolean {
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
