import { clientBindings, clientOf } from '../client-bindings.ts';
import type { Home } from '../../flow/workspace.ts';
import type { InstallClient } from '../../clients/install-client.ts';
import { INSTALL_CLIENTS } from '../../clients/install-clients.ts';
import type { AgentName } from '../../protocol/names.ts';
import { parleyHome } from '../../platform/env.ts';
import type { Env } from '../../platform/env.ts';
import { counted, on } from './finding.ts';
import type { Finding } from './finding.ts';

/** How many messages wait in a mailbox that must be answered. */
export interface Waiting {
  home: Home['label'];
  mailbox: AgentName;
  count: number;
}

/** The mailboxes of agents in which mail waits that must be answered. People read their mail themselves. */
export async function waitingIn({ label, directory, ledger }: Home): Promise<Waiting[]> {
  const found: Waiting[] = [];
  for (const { name, parley } of await directory.list()) {
    if (parley?.kind === 'human') continue;
    const copies = [...(await ledger.open(name)).values()];
    const count = copies.filter(
      ({ state, attention }) => state === 'stored' && attention.policy === 'must_respond',
    ).length;
    if (count > 0) found.push({ home: label, mailbox: name, count });
  }
  return found;
}

/** Says so in one clause: `2 messages that must be answered wait for @bob`. */
export function waits({ mailbox, count }: Waiting): string {
  return `${counted(count, 'message that must be answered waits', 'messages that must be answered wait')} for @${mailbox}`;
}

/** Mail in Parley's own home that waits for a mailbox without a running session that is known. `missing` says what a client lacks; null if its hook runs. */
export function examineWaiting(
  env: Env,
  waiting: readonly Waiting[],
  missing: (client: InstallClient) => string | null,
): Finding[] {
  const bindings = clientBindings(parleyHome(env));
  return waiting
    .filter(({ home }) => home === 'parley')
    .map((one) => {
      const { warn } = on(`mailbox ${one.mailbox}`);
      const look = `\`parley inbox --as ${one.mailbox}\` shows it`;
      const client = INSTALL_CLIENTS.find(({ name }) => name === clientOf(bindings, one.mailbox));
      if (client === undefined)
        return warn(
          `${waits(one)}, and no client has this mailbox`,
          `${look}; \`parley install <client> --as ${one.mailbox}\` gives it to a client`,
        );
      const { title } = client;
      const next = missing(client);
      return next === null
        ? warn(`${waits(one)}, and nothing wakes an idle ${title}`, `give ${title} a prompt, which brings it; ${look}`)
        : warn(`${waits(one)}, and nothing brings it to ${title}`, `${next}; ${look}`);
    });
}
