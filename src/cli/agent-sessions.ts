import type { Env } from '../core/env.ts';
import type { LiveSession } from '../core/ports/live-session.ts';
import type { Way, WayName } from '../core/ports/way-in.ts';
import { reasonOf } from '../core/refusal.ts';
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
  /** When mail comes where no way is open now, if that is not with its next prompt. */
  mailComes?: string;
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

/**
 * The sessions of each agent of Parley's home: those that run, and the last one of each name that a session was given. `tell` gets what keeps
 * the sessions of one client from being listed.
 */
export async function agentSessions(env: Env, tell: (trouble: string) => void): Promise<Map<string, AgentSession[]>> {
  const names = new SessionNames(parleyHome(env));
  const named = names.all();
  const isFollowed = daemonNotice(`${names.home}/daemon`)?.doors.some(({ name }) => name === 'follow') ?? false;
  const found = new Map<string, AgentSession[]>();
  const add = (name: string, session: AgentSession): void =>
    void found.set(name, [...(found.get(name) ?? []), session]);
  for (const [client, sessions] of liveClients(env)) {
    try {
      for (const live of await sessions.list()) {
        const name = names.nameOf(live, named);
        if (name) add(name, running(live, isFollowed ? sessions.ways(live) : null));
      }
    } catch (error) {
      tell(`the running sessions of ${client} cannot be listed: ${reasonOf(error)}`);
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

/** `ways`: null if nobody follows it. */
function running(live: LiveSession, ways: readonly Way[] | null): AgentSession {
  const { client, folder, status, waitingFor, id, pid, mailComes } = live;
  const way = ways?.[0]?.name ?? null;
  return {
    client,
    folder,
    state: STATES[status],
    ...(waitingFor && { waitingFor }),
    way,
    ...(ways?.length === 0 && mailComes && { mailComes }),
    session: id,
    pid: pid ?? null,
  };
}

/** Why a session has this way and not a faster one. */
const REASONS: Partial<Record<WayName, string>> = { queue: ', because its window runs without the daemon of Codex' };

/** One session in a line for people: `claude in ~/api, idle, by socket`. */
export function sessionLine(session: AgentSession, env: Env): string {
  const { client, folder, state, waitingFor, way, mailComes = 'with its next prompt' } = session;
  const home = userHome(env);
  const where = folder === home || folder.startsWith(`${home}/`) ? `~${folder.slice(home.length)}` : folder;
  const waits = waitingFor === undefined ? state : `${state} (${waitingFor})`;
  const by = way === null ? `mail comes ${mailComes}` : `by ${way}${REASONS[way] ?? ''}`;
  const how = state === 'not running' ? '' : `, ${by}`;
  return `${client} in ${where}, ${waits}${how}`;
}
