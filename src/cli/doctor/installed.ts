import type { Env } from '../../core/env.ts';
import { parleyHome, userHome } from '../../platform/env.ts';
import { gitTop } from '../../platform/git.ts';
import type { ClientSettings } from '../../clients/settings/client-settings.ts';
import { SETTINGS_CLIENTS } from '../../clients/installable.ts';
import type { Addition } from '../../clients/settings/changes.ts';
import { find } from '../../clients/settings/file.ts';
import type { Workspace } from '../../core/mail/workspace.ts';
import { Refusal } from '../../core/refusal.ts';
import { clientBindings } from '../../delivery/client-bindings.ts';
import { hookLine } from '../hook-setup.ts';
import { possibleAdditions } from '../install/parley-profile.ts';
import { on } from './finding.ts';
import type { Finding } from './finding.ts';

/** Clients whose mailbox is gone: their hook and tools show nothing. */
export async function examineBindings(env: Env, workspace: Workspace): Promise<Finding[]> {
  const { warn, bad } = on('clients');
  try {
    const findings: Finding[] = [];
    for (const [client, agent] of Object.entries(clientBindings(parleyHome(env)))) {
      const records = await Promise.all(workspace.homes.map((home) => home.directory.get(agent)));
      if (records.every((record) => record === null))
        findings.push(
          warn(
            `${client} is bound to @${agent}, and there is no such mailbox`,
            `\`parley install ${client}\` makes it; \`parley install ${client} --as <name>\` uses another`,
          ),
        );
    }
    return findings;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return [bad(error.message, 'until then no client gets mail')];
  }
}

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
