import type { Env } from '../core/env.ts';
import type { AgentName } from '../core/names.ts';
import type { LiveSession } from '../core/ports/live-session.ts';
import type { Way, WayName } from '../core/ports/way-in.ts';
import { reasonOf } from '../core/refusal.ts';
import { clientNamed, liveClients } from '../clients/clients.ts';
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
export async function agentSessions(
  env: Env,
  tell: (trouble: string) => void,
): Promise<Map<AgentName, AgentSession[]>> {
  const names = new SessionNames(parleyHome(env));
  const named = names.all();
  const isFollowed = hasFollower(names.home);
  const found = new Map<AgentName, AgentSession[]>();
  const add = (name: AgentName, session: AgentSession): void =>
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

/** When mail comes by a way that is open. */
const COMES: Readonly<Record<string, string>> = {
  idle: 'mail wakes it',
  busy: 'mail comes after the running tool',
  waiting: 'mail comes after your answer',
  starting: 'mail comes when it has started',
};

/**
 * Says sessions for people, each in one line, with its state and what that means for mail: `claude in ~/api, idle; mail wakes it (socket)`.
 */
export class SessionLines {
  readonly #names: SessionNames;
  readonly #isFollowed: boolean;

  constructor(readonly env: Env) {
    this.#names = new SessionNames(parleyHome(env));
    this.#isFollowed = hasFollower(this.#names.home);
  }

  of(name: AgentName, session: AgentSession): string {
    const { client, folder, state, waitingFor } = session;
    const home = userHome(this.env);
    const where = folder === home || folder.startsWith(`${home}/`) ? `~${folder.slice(home.length)}` : folder;
    const does = waitingFor === undefined ? state : `${state} (${waitingFor})`;
    return `${client} in ${where}, ${does}${state === 'not running' ? '' : `; ${this.#mailComes(name, session)}`}`;
  }

  #mailComes(name: AgentName, { client, state, way, mailComes }: AgentSession): string {
    if (way !== null) return `${COMES[state] ?? 'mail comes'} (${way}${REASONS[way] ?? ''})`;
    const hook = this.#names.hasHook(name) ? (clientNamed(client)?.hook ?? null) : null;
    const isBetweenTools = hook !== null && Object.keys(hook.events).some((event) => AFTER_TOOLS.includes(event));
    if (state === 'busy' && isBetweenTools) return 'mail comes after the running tool (hook)';
    if (mailComes !== undefined) return `mail comes ${mailComes}`;
    if (state === 'waiting' && (hook || this.#isFollowed)) return 'mail comes after your answer';
    if (hook) return `mail comes ${state === 'busy' ? 'at the end of its turn' : 'with your next prompt'} (hook)`;
    if (!this.#isFollowed) return 'mail waits for the daemon: `parley up --detach`';
    return state === 'running' ? 'how mail comes is not known yet' : 'mail waits until its model asks for it';
  }
}

/** The events of a hook that come between two requests of one turn. */
const AFTER_TOOLS = ['PostToolUse', 'AfterTool'];

/** Whether the daemon gives mail to running sessions. */
function hasFollower(home: string): boolean {
  return daemonNotice(`${home}/daemon`)?.doors.some(({ name }) => name === 'follow') ?? false;
}
