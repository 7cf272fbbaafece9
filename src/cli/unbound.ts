import { Refusal } from '../protocol/refusal.ts';
import { clientBindings } from './client-bindings.ts';
import type { Context } from './context.ts';
import { parleyHome } from './env.ts';

/**
 * Refuses the mailbox of config.json to a client that has no mailbox of its own: it is the user's, or another client's.
 * A hook line of 0.1.0 may name no mailbox, and looks like a line of today. It is served in a home where no client is bound. spec: hook#session
 */
export function refuseUnbound({ loaded, env }: Context, client: string, door: 'hook' | 'mcp'): void {
  const home = parleyHome(env);
  const from = loaded.origins.find(({ name }) => name === 'agent')?.from;
  if (from !== 'default' && from !== `${home}/config.json`) return;
  if (door === 'hook' && Object.keys(clientBindings(home)).length === 0) return;
  throw new Refusal('no_identity', `${client} has no mailbox here; run \`parley install ${client}\` first`);
}
