import { clientNamed } from '../../clients/clients.ts';
import { dndOf } from './sessions.ts';
import { isContainer } from './registry.ts';
import { readSessionId } from './shapes.ts';
import { clientProcess, enrol } from './session-commands.ts';
import { serveMcp } from '../../wire/mcp-stdio.ts';
import { Channel } from './channel.ts';
import { c2cFace } from './mcp.ts';
import type { C2cFaceDeps } from './mcp.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Face } from '../../wire/mcp.ts';
import { VERSION } from '../../platform/program.ts';
import { servingLog } from '../../platform/log.ts';
import type { Log } from '../../core/service.ts';
import { C2c } from './workspace.ts';
import { FLAG, command } from '../../core/command.ts';
import { bindHookSession } from './hook-session.ts';
import { instanceEnvironment, instanceAbove } from './instance.ts';
import { isSupervisor, supervisors } from './supervisors.ts';
import { claudeFolder } from '../../clients/claude/settings.ts';
import { userHome } from '../../platform/env.ts';

/** How often a server in a container renews the lease of its session. */
const LEASE_MS = 60_000;

const mcpCommand = command({
  usage: 'mcp [--all-tools]',
  options: { 'all-tools': FLAG },
  async run(given: C2c, values) {
    const c2c = named(given);
    const sessionId = c2c.session();
    const pid = clientProcess(c2c.env) ?? process.ppid;
    const log = servingLog({ json: c2c.env['PARLEY_LOG'] === 'json', verbose: false });
    const channel = channelOf(c2c, sessionId, log);
    const faceOf = (session: string, further: Partial<C2cFaceDeps>): Face =>
      c2cFace({
        workspace: c2c.workspace,
        broker: c2c.broker,
        sessionId: session,
        version: VERSION,
        allTools: values['all-tools'] ?? false,
        supervisors: () => supervisors(c2c.env, c2c.cwd),
        isSupervisor: (alias) => isSupervisor(c2c.env, alias),
        register: (alias) => enrol(c2c, { sessionId: session, pid, ...(alias !== undefined && { alias }) }),
        reader: () => c2c.reader(session),
        now: Date.now,
        ...further,
      });
    const face = faceOf(sessionId, { onThread: boundOnce(c2c, sessionId), channel });
    await enrolAtStart(c2c, sessionId, pid, log);
    await channel.prepare();
    const touch = (): void => c2c.broker.registry.touchLease(sessionId, Date.now());
    const lease = isContainer() ? setInterval(touch, LEASE_MS) : undefined;
    await serveMcp(isNamed(given) ? face : byThread(face, (thread) => faceOf(thread, {})), log);
    clearInterval(lease);
  },
});

/** Whether the environment or `c2c start` names the session of this server. */
function isNamed(c2c: C2c): boolean {
  return c2c.sessionId !== null || Boolean(c2c.env['C2C_MCP_AUTO_REGISTER_ALIAS']) || instanceAbove(c2c.env) !== null;
}

/**
 * Serves each thread as a session of its own. One daemon of Codex serves all its windows, so its process names no session; the thread id that comes
 * with a call does. Shells of that window have it in CODEX_THREAD_ID, and hooks get it on stdin. spec: c2c#tools
 */
function byThread(face: Face, faceOf: (thread: string) => Face): Face {
  const faces = new Map<string, Face>();
  return {
    ...face,
    met: () => {},
    async call(name, given, answer, meta) {
      if (meta['threadId'] === undefined) return face.call(name, given, answer, meta);
      const thread = readSessionId(meta['threadId']);
      const own = faces.get(thread) ?? faceOf(thread);
      faces.set(thread, own);
      return own.call(name, given, answer, meta);
    },
  };
}

/**
 * The context with a session. Codex and OpenCode give their MCP servers no session id. Then the session is that of the `c2c start` instance above
 * us, else the alias in the client's settings, else an id made from the client's pid.
 */
function named(c2c: C2c): C2c {
  if (c2c.sessionId !== null) return c2c;
  const instance = instanceAbove(c2c.env);
  if (instance) return new C2c(instanceEnvironment(c2c.env, instance), c2c.cwd);
  const alias = c2c.env['C2C_MCP_AUTO_REGISTER_ALIAS'];
  const session = readSessionId(alias || `mcp-${clientProcess(c2c.env) || process.ppid}`);
  return c2c.as(session);
}

/** Records the inbox of each thread once. Codex sends a thread id only with calls; by it, hooks find the inbox and loops find the state files. */
function boundOnce(c2c: C2c, sessionId: string): (threadId: string) => void {
  const bound = new Set<string>();
  return (threadId) => {
    if (bound.has(threadId)) return;
    bound.add(threadId);
    bindHookSession({ ...c2c.env, CODEX_THREAD_ID: threadId }, c2c.root, sessionId);
  };
}

/** Registers the session. If that is refused, the server still starts, and its tools report the reason to the model. */
async function enrolAtStart(c2c: C2c, sessionId: string, pid: number, log: Log): Promise<void> {
  try {
    await enrol(c2c, { sessionId, pid });
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    log('not_registered', { session: sessionId, because: error.message });
  }
}

/** Makes the channel of a session. Only Claude Code has a record that proves what it showed. spec: c2c#channel */
function channelOf(c2c: C2c, sessionId: string, log: Log): Channel {
  const { env } = c2c;
  const transcripts = env['CLAUDE_CODE_SESSION_ID'] ?? env['CLAUDE_SESSION_ID'];
  const home = userHome(env);
  const folders = [claudeFolder({ home, env }), `${home}/.claude-shared`];
  const shown = transcripts ? clientNamed('claude')?.evidence?.(folders, transcripts) : undefined;
  return new Channel({
    reader: () => c2c.reader(sessionId),
    isOn: (env['C2C_MCP_CHANNEL_DELIVERY'] ?? '1') !== '0',
    withBacklog: env['C2C_MCP_AUTO_DRAIN_CHANNEL'] === '1',
    isForced: (env['C2C_MCP_FORCE_CAPABILITIES'] ?? '').split(',').includes('claude_channel'),
    async mayDisturb() {
      const known = await c2c.broker.session(sessionId);
      return !known || !dndOf(known.row, Date.now() / 1000).dnd;
    },
    proof: shown && ((parcels, signal) => shown.wait(parcels, signal)),
    now: Date.now,
    onTrouble: (error) => log('channel_failed', { error: error instanceof Error ? error.message : String(error) }),
  });
}

export const commands = {
  mcp: mcpCommand,
  serve: mcpCommand,
};
