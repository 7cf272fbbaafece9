import type { Env } from '../../core/env.ts';
import { ancestors, isClient } from '../../platform/process.ts';
import { dndOf, noAlias, setDnd, splitList, sessionJson } from './sessions.ts';
import { readAlias, readRoom, readSessionId } from './shapes.ts';
import type { Registration } from './register.ts';
import type { BrokerSession } from './broker.ts';
import { isoOf, ago, momentFrom } from '../../core/time.ts';
import { bindHookSession } from './hook-session.ts';
import { FLAG, TEXT, command } from '../../core/command.ts';
import { lineForModel } from '../../core/gate.ts';
import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { JSON_FLAG, SESSION_ID } from './workspace.ts';
import type { C2c } from './workspace.ts';

const registerCommand = command({
  usage: 'register [<alias>] [--session-id <id>] [--json]',
  options: { alias: { ...TEXT, short: 'a' }, 'session-id': SESSION_ID, json: JSON_FLAG },
  words: [0, 1],
  async run(c2c: C2c, values, [word]) {
    const named = values.alias ?? word;
    const given = values['session-id'];
    const sessionId = given === undefined ? c2c.session() : readSessionId(given);
    const wish = { sessionId, pid: clientProcess(c2c.env), ...(named !== undefined && { alias: readAlias(named) }) };
    const session = await enrol(c2c, wish);
    if (!session) {
      throw new Refusal('no_identity', 'say which alias: `c2c register <alias>` (or set C2C_MCP_AUTO_REGISTER_ALIAS)');
    }
    const { alias, session_id } = session.row;
    const { joined, refused } = session.joined;
    for (const { room, why } of refused) c2c.note(`not in room ${room}: ${why}`);
    if (values.json) return c2c.sayJson({ alias, session_id, ...(joined.length > 0 && { rooms: joined }) });
    c2c.say(`registered ${alias} (session ${session_id})${joined.length > 0 ? `, in ${joined.join(', ')}` : ''}`);
  },
});

const whoamiCommand = command({
  usage: 'whoami [--json]',
  options: { json: JSON_FLAG },
  words: [0, 0],
  async run(c2c: C2c, values) {
    const sessionId = c2c.session();
    const alias = (await c2c.broker.session(sessionId))?.row.alias ?? '';
    if (values.json) return c2c.sayJson({ session_id: sessionId, alias });
    c2c.say(
      alias === ''
        ? `session ${sessionId} has no alias; run \`c2c register <alias>\``
        : `${alias} (session ${sessionId})`,
    );
  },
});

const listCommand = command({
  usage: 'list [--alive] [--json]',
  // `--all` is accepted without effect, for scripts of the original: all sessions are always listed.
  options: { all: { ...FLAG, short: 'a' }, alive: FLAG, json: JSON_FLAG },
  words: [0, 0],
  async run(c2c: C2c, values) {
    const sessions = (await c2c.broker.sessions()).filter(({ alive }) => !values.alive || alive === true);
    if (values.json) return c2c.sayJson(sessions.map(sessionJson));
    if (sessions.length === 0) return c2c.say('nobody is registered here; be the first: `c2c register <alias>`');
    for (const { row, alive, lastSeen } of sessions) {
      const state = alive === null ? 'unknown' : alive ? 'alive' : 'gone';
      const seen = lastSeen > 0 ? `seen ${ago(isoOf(lastSeen), Date.now())}` : 'never seen';
      c2c.say(
        `${row.alias.padEnd(24)} ${state.padEnd(8)} ${seen}  ${lineForModel(row.client_type ?? '', 20)}`.trimEnd(),
      );
    }
  },
});

const dndCommand = command({
  usage: 'dnd [on|off|status] [--until 30m|2h|07:30|<time>] [--json]',
  options: { until: TEXT, json: JSON_FLAG },
  words: [0, 1],
  async run(c2c: C2c, { until, json }, [word = 'status']) {
    if (!['on', 'off', 'status'].includes(word))
      throw new Refusal('invalid_request', `dnd takes on, off or status, not "${word}"`);
    const now = Date.now() / 1000;
    const known = await c2c.broker.session(c2c.session());
    if (!known) throw noAlias();
    const wish = { on: word === 'on', until: until === undefined ? undefined : endOf(until, now) };
    const told = word === 'status' ? dndOf(known.row, now) : await setDnd(c2c.broker, known.row.session_id, wish, now);
    if (json) return c2c.sayJson(word === 'status' ? told : { ok: true, ...told });
    const rest = told.dnd_until === undefined ? '' : ` until ${isoOf(told.dnd_until)}`;
    c2c.say(told.dnd ? `not to be disturbed${rest}` : 'may be disturbed');
  },
});

/** Reads an end time: seconds since 1970, as other programs give it, or a future time as people write it. */
function endOf(text: string, now: number): number {
  return /^\d+(\.\d+)?$/.test(text) ? Number(text) : Date.parse(momentFrom(text, now * 1000)) / 1000;
}

const OPTIONS = { reason: { ...TEXT, short: 'r' }, json: JSON_FLAG } as const;
const USAGE = 'set-compact [--reason <text>] [--json] | clear-compact [--json]';

const setCompactCommand = command({
  usage: USAGE,
  options: OPTIONS,
  words: [0, 0],
  run: (c2c: C2c, { reason, json }) =>
    noteCompacting(c2c, { started_at: Date.now() / 1000, reason: reason ?? null }, json),
});

const clearCompactCommand = command({
  usage: USAGE,
  options: OPTIONS,
  words: [0, 0],
  run: (c2c: C2c, { json }) => noteCompacting(c2c, undefined, json),
});

/** Records whether the session compacts its context, so that others see why it does not answer. */
async function noteCompacting(
  c2c: C2c,
  compacting: { started_at: number; reason: string | null } | undefined,
  json = false,
): Promise<void> {
  if (!(await c2c.broker.amend(c2c.session(), () => ({ compacting })))) {
    throw noAlias();
  }
  if (json) return c2c.sayJson({ ok: true, ...(compacting && { started_at: compacting.started_at }) });
  c2c.say(compacting ? 'noted: compacting' : 'noted: no longer compacting');
}

/** Registers a session under the alias that it asks for, its own, or that of the environment, and joins its rooms. Null if there is no alias. */
export async function enrol(c2c: C2c, wish: Registration): Promise<(BrokerSession & { joined: Joined }) | null> {
  const automatic = c2c.env['C2C_MCP_AUTO_REGISTER_ALIAS'];
  const keepsOwn = wish.alias !== undefined || (await c2c.broker.aliasOf(wish.sessionId)) !== null;
  if (!keepsOwn && !automatic) return null;
  const asked = keepsOwn ? wish : { ...wish, alias: readAlias(automatic) };
  await refuseSupervisors(c2c, asked);
  const session = await c2c.broker.register({ clientType: c2c.env['C2C_MCP_CLIENT_TYPE'] || undefined, ...asked });
  bindHookSession(c2c.env, c2c.root, session.row.session_id);
  return { ...session, joined: await joinAtStart(c2c, session.row.alias as AgentName) };
}

/** Refuses a change to or from a supervisor's alias, unless the user makes it. A session that keeps its alias is not refused. */
async function refuseSupervisors(c2c: C2c, { sessionId, alias }: Registration): Promise<void> {
  const before = (await c2c.broker.session(sessionId))?.row.alias;
  if (alias === undefined || alias.toLowerCase() === before?.toLowerCase()) return;
  for (const one of [alias, before]) if (one !== undefined) c2c.refuseSupervisor(one, 'act');
}

interface Joined {
  joined: string[];
  refused: { room: string; why: string }[];
}

/** Joins the rooms in C2C_MCP_AUTO_JOIN_ROOMS, a list with commas. A room that refuses does not stop the others. spec: c2c#rooms */
async function joinAtStart(c2c: C2c, alias: AgentName): Promise<Joined> {
  const done: Joined = { joined: [], refused: [] };
  for (const name of splitList(c2c.env['C2C_MCP_AUTO_JOIN_ROOMS'])) {
    try {
      const room = readRoom(name);
      await c2c.broker.join(room, alias);
      done.joined.push(room);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      done.refused.push({ room: name, why: error.message });
    }
  }
  return done;
}

/**
 * The pid of the client: the session is alive as long as that process runs. The parent of a command is often a short-lived shell, so its pid would
 * prove nothing. The client gives its pid in C2C_MCP_CLIENT_PID, or is found by its name among our ancestors. Otherwise it is unknown, and the
 * session counts neither as alive nor as dead. spec: c2c#alive
 */
export function clientProcess(env: Env): number | undefined {
  const told = env['C2C_MCP_CLIENT_PID'];
  if (told && /^(0|[1-9]\d{0,9})$/.test(told)) return Number(told);
  for (const ancestor of ancestors()) if (isClient(ancestor)) return ancestor.pid;
  return undefined;
}

export const commands = {
  register: registerCommand,
  whoami: whoamiCommand,
  list: listCommand,
  dnd: dndCommand,
  'set-dnd': dndCommand,
  'set-compact': setCompactCommand,
  'clear-compact': clearCompactCommand,
};
