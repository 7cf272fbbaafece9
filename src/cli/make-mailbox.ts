import type { Home } from '../core/mail/workspace.ts';
import { AgentName } from '../core/names.ts';
import { Refusal } from '../core/refusal.ts';
import { parleyHome } from '../platform/env.ts';
import { bridgeName } from '../protocols/c2a/platform-names.ts';
import type { Context } from './context.ts';
import { relayMailboxes } from './relay-mailboxes.ts';

/** Makes a mailbox of an agent on this machine. */
export async function makeMailbox(home: Home, agent: AgentName): Promise<void> {
  await refuseSurfaceName(home, agent);
  await home.directory.register(agent, 'agent');
  await home.mailboxes.heal();
  await home.mailboxes.adopt(agent);
}

/** Under the name of a platform are the people of its surface: a person with that id there would speak for this agent. */
export async function refuseSurfaceName(home: Home, name: AgentName): Promise<void> {
  const platform = AgentName.safeParse(name.split('.')[0]);
  if (!name.includes('.') || !platform.success || !(await home.directory.get(bridgeName(platform.data)))) return;
  throw new Refusal('name_taken', `names that begin with "${platform.data}." belong to a surface; pick another name`);
}

/** The names of all mailboxes of this user: none of them is given to a session by itself. */
export async function takenNames({ workspace, env }: Context): Promise<ReadonlySet<string>> {
  const local = workspace.homes.filter(({ remote }) => !remote);
  const records = (await Promise.all(local.map(({ directory }) => directory.list()))).flat();
  return new Set([...records.map(({ name }) => name), ...relayMailboxes(parleyHome(env)).map(({ agent }) => agent)]);
}
