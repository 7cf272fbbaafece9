import { readRoom } from '../../protocol/c2c.ts';
import type { AgentName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { Broker, Registration, Session } from '../../storage/c2c/broker.ts';

/** A session as `list` tells of it, to people's programs. spec: c2c#list */
export function sessionJson({ row, alive, lastSeen }: Session): Record<string, unknown> {
  const { session_id, alias, pid, registered_at, client_type, dnd, dnd_until } = row;
  const { canonical_alias, compacting, role } = row as Record<string, unknown>;
  return {
    session_id,
    alias,
    alive,
    last_seen: lastSeen,
    ...(pid !== undefined && { pid }),
    ...(registered_at !== undefined && { registered_at }),
    ...(typeof canonical_alias === 'string' && { canonical_alias }),
    ...(client_type !== undefined && { client_type }),
    ...(typeof role === 'string' && { role }),
    ...(dnd && { dnd: true, ...(dnd_until !== undefined && { dnd_until }) }),
    ...(typeof compacting === 'object' && compacting !== null && { compacting }),
  };
}

/** What a session wants to be called: what it says itself; else what it is called; else what its environment says. */
export async function wishOf(
  broker: Broker,
  wish: Registration,
  automatic: AgentName | undefined,
): Promise<Registration | null> {
  if (wish.alias !== undefined || (await broker.session(wish.sessionId))) return wish;
  return automatic === undefined ? null : { ...wish, alias: automatic };
}

/**
 * The alias under which a session may write, as it is registered: one that nobody has, its own, or that of a session whose process
 * ended. A session without a known process counts as one that runs. spec: c2c#aliases
 */
export async function speakerOf(broker: Broker, alias: AgentName, sessionId: string | null): Promise<AgentName> {
  const known = await broker.called(alias);
  if (!known) return alias;
  const { session_id, alias: written } = known.row;
  if (known.alive === false || session_id === sessionId) return written as AgentName;
  const runs = known.alive ? 'that runs' : 'that may run';
  throw new Refusal(
    'not_yours',
    `"${written}" is the alias of another session ${runs} (${session_id}); choose another alias`,
  );
}

/** Joins these rooms. One that does not let it in, or is none, keeps it out of no other: it is answered with the reason. spec: c2c#rooms */
export async function joinRooms(
  broker: Broker,
  alias: AgentName,
  rooms: readonly string[],
): Promise<{ joined: string[]; refused: { room: string; why: string }[] }> {
  const joined: string[] = [];
  const refused: { room: string; why: string }[] = [];
  for (const name of rooms) {
    try {
      const room = readRoom(name);
      await broker.join(room, alias);
      joined.push(room);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      refused.push({ room: name, why: error.message });
    }
  }
  return { joined, refused };
}

/** A list in one text: parts between commas, without blanks around them. */
export function namesIn(text: string | undefined): string[] {
  return (text ?? '')
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '');
}
