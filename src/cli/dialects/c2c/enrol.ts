import { joinRooms, namesIn, wishOf } from '../../../protocols/c2c/sessions.ts';
import { readAlias } from '../../../protocols/c2c/shapes.ts';
import type { AgentName } from '../../../protocol/names.ts';
import type { Session } from '../../../protocols/c2c/broker.ts';
import type { Registration } from '../../../protocols/c2c/register.ts';
import type { C2c } from './c2c.ts';
import { bindSession } from './hook-session.ts';

/** Registers a session as it wishes, or as its environment says; null if neither names an alias. Then it joins its rooms. */
export async function enrol(c2c: C2c, wish: Registration): Promise<(Session & { joined: Joined }) | null> {
  const automatic = c2c.env['C2C_MCP_AUTO_REGISTER_ALIAS'];
  const asked = await wishOf(c2c.broker, wish, automatic ? readAlias(automatic) : undefined);
  if (!asked) return null;
  await refuseSupervisors(c2c, asked);
  const session = await c2c.broker.register({ clientType: c2c.env['C2C_MCP_CLIENT_TYPE'] || undefined, ...asked });
  bindSession(c2c.env, c2c.root, session.row.session_id);
  return { ...session, joined: await joinAtStart(c2c, session.row.alias as AgentName) };
}

/** Only the user gives a session the alias of a supervisor, or takes it away. One that has it and asks for no other keeps its row. */
async function refuseSupervisors(c2c: C2c, { sessionId, alias }: Registration): Promise<void> {
  const before = (await c2c.broker.session(sessionId))?.row.alias;
  if (alias === undefined || alias.toLowerCase() === before?.toLowerCase()) return;
  for (const one of [alias, before]) if (one !== undefined) c2c.refuseSupervisor(one, 'act');
}

type Joined = Awaited<ReturnType<typeof joinRooms>>;

/** The rooms that C2C_MCP_AUTO_JOIN_ROOMS lists, between commas. spec: c2c#rooms */
export async function joinAtStart(c2c: C2c, alias: AgentName): Promise<Joined> {
  return joinRooms(c2c.broker, alias, namesIn(c2c.env['C2C_MCP_AUTO_JOIN_ROOMS']));
}
