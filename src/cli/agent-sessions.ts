import type { Env } from '../core/env.ts';
import type { LiveSession } from '../core/ports/live-session.ts';
import type { WayName } from '../core/ports/way-in.ts';
import { liveClients } from '../clients/clients.ts';
import { hasLiveProcess, SessionNames } from '../delivery/session-names.ts';
import { daemonNotice } from '../platform/daemon-lock.ts';
import { parleyHome, userHome } from '../platform/env.ts';

/** A session that has the name of an agent. */
export interface AgentSession {
  client: string;
  folder: string;
  /** `running`: its process runs, and its client does not say more. */
  state: 'idle' | 'busy' | 'waiting' | 'starting' | 'running' | 'not running';
  /** What it asks its user, in the client's words. */
  waitingFor?: string;
  /** How mail reaches it now without its user; null: only with its next prompt or tool call. */
  way: WayName | null;
  /** The client's own id of the session. */
  session: string | null;
  pid: number | null;
}

const STATES = {
  active: 'busy',
  idle: 'idle',
  waiting: 'waiting',
  starting: 'starting',
  stopped: 'not running',
} as const satisfies Record<LiveSession['status'], AgentSession['state']>;

/** The sessions of each agent of Parley's home: those that run, and the last one of each name that a session was given. */
export async function agentSessions(env: Env): Promise<Map<string, AgentSession[]>> {
  const names = new SessionNames(parleyHome(env));
  const named = names.all();
  const isFollowed = daemonNotice(`${names.home}/daemon`)?.doors.some(({ name }) => name === 'follow') ?? false;
  const found = new Map<string, AgentSession[]>();
  const add = (name: string, session: AgentSession): void =>
    void found.set(name, [...(found.get(name) ?? []), session]);
  for (const sessions of liveClients(env).values()) {
    for (const live of await sessions.list()) {
      const name = names.nameOf(live, named);
      if (name) add(name, running(live, (isFollowed && sessions.ways(live)[0]?.name) || null));
    }
    await sessions.close();
  }
  for (const one of named) {
    if (found.has(one.name)) continue;
    const { client, folder, session } = one;
    const isAlive = hasLiveProcess(one);
    const state = isAlive ? 'running' : 'not running';
    add(one.name, { client, folder, state, way: null, session, pid: isAlive ? one.pid : null });
  }
  return found;
}

function running(live: LiveSession, way: WayName | null): AgentSession {
  const { client, folder, status, waitingFor, id, pid } = live;
  return {
    client,
    folder,
    state: STATES[status],
    ...(waitingFor && { waitingFor }),
    way,
    session: id,
    pid: pid ?? null,
  };
}

/** Why a session has this way and not a faster one. */
const REASONS: Partial<Record<WayName, string>> = { queue: ', because its window runs without the daemon of Codex' };

/** One session in a line for people: `claude in ~/api, idle, by socket`. */
export function sessionLine({ client, folder, state, waitingFor, way }: AgentSession, env: Env): string {
  const home = userHome(env);
  const where = folder === home || folder.startsWith(`${home}/`) ? `~${folder.slice(home.length)}` : folder;
  const waits = waitingFor === undefined ? state : `${state} (${waitingFor})`;
  const how =
    state === 'not running'
      ? ''
      : way === null
        ? ', mail comes with its next prompt'
        : `, by ${way}${REASONS[way] ?? ''}`;
  return `${client} in ${where}, ${waits}${how}`;
}
