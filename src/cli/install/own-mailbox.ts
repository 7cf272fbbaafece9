import type { ClientName } from '../../clients/install-client.ts';
import type { Who } from '../../flow/workspace.ts';
import { AgentName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { clientBindings, clientOf } from '../client-bindings.ts';
import { refuseSurfaceName } from '../commands/setup.ts';
import { Context } from '../context.ts';
import { parleyHome } from '../../platform/env.ts';

/** The mailbox of a client, and whether it has to be made. */
export interface OwnMailbox {
  agent: AgentName;
  isMissing: boolean;
}

/**
 * Chooses the mailbox of a client: the one that the user names, else the one it has, else one with its own name. Another client's
 * mailbox is given only to a client for which the user names it.
 */
export async function ownMailbox(context: Context, client: ClientName, named?: AgentName): Promise<OwnMailbox> {
  const bindings = clientBindings(parleyHome(context.env));
  const agent = named ?? bindings[client] ?? AgentName.parse(client);
  const holder = clientOf(bindings, agent);
  if (named === undefined && bindings[client] === undefined && holder !== undefined)
    throw new Refusal(
      'name_taken',
      `@${agent} is the mailbox of ${holder}; choose another: parley install ${client} --as <name>`,
    );
  const found = await mailboxCalled(context, agent);
  if (found && (await found.home.directory.get(agent))?.parley?.kind === 'human')
    throw new Refusal(
      'name_taken',
      `@${agent} is the mailbox of a person; choose another: parley install ${client} --as <name>`,
    );
  return { agent, isMissing: found === null };
}

/** Makes a mailbox on this machine. */
export async function makeMailbox({ workspace }: Context, agent: AgentName): Promise<void> {
  const home = workspace.homes.find(({ label }) => label === 'parley');
  if (!home) throw new Error('a workspace has a home of Parley');
  await refuseSurfaceName(home, agent);
  await home.directory.register(agent, 'agent');
  await home.spool.heal();
  await home.spool.adopt(agent);
}

async function mailboxCalled(context: Context, agent: AgentName): Promise<Who | null> {
  try {
    return await new Context(context.env, context.cwd, { as: agent }).who();
  } catch (error) {
    if (error instanceof Refusal && error.code === 'no_identity') return null;
    throw error;
  }
}
