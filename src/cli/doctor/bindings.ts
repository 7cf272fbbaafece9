import type { Workspace } from '../../flow/workspace.ts';
import { parleyHome } from '../../platform/env.ts';
import type { Env } from '../../platform/env.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { clientBindings } from '../client-bindings.ts';
import { on } from './finding.ts';
import type { Finding } from './finding.ts';

/** Clients whose mailbox is gone: their hook and tools bring nothing. */
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
            `\`parley install ${client}\` makes it, \`parley install ${client} --as <name>\` gives it another`,
          ),
        );
    }
    return findings;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return [bad(error.message, 'until then no client knows its mailbox')];
  }
}
